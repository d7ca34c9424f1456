"""Claims due deliveries of one lane."""

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple
from uuid import UUID

import msgspec

from tocsin.domain.catalog import Channel
from tocsin.domain.ids import LeaseId
from tocsin.domain.people.profile import Destination, RecipientProfile
from tocsin.store.pool import Connection


class Position(NamedTuple):
    """A position in the due index, from which the next claim continues."""

    due_at: datetime
    id: UUID


START = Position(datetime(1, 1, 1, tzinfo=UTC), UUID(int=0))


class NewerMessage(msgspec.Struct, frozen=True, kw_only=True):
    """The newest due message with the same collapse key."""

    version: int
    accepted_at: datetime
    expires_at: datetime | None = None
    send_at_local: datetime | None = None


class FailedChannel(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the channel that a fallback stands in for was sent, and when its first attempt is due."""

    confirmed: bool
    awaited_at: datetime | None = None


class ClaimedDelivery(msgspec.Struct, frozen=True):
    """A delivery under lease, with everything a send needs, read at this moment.

    One without a notification carries the digest named by `digest_id`. `order_blockers` are the devices that
    earlier deliveries of its ordering group wait for. The profile lists the recipient's devices of that
    channel; of a delivery that has its device, that one alone, if it is still theirs. `recovering` means
    that its attempts are used up by faults of its provider.
    """

    id: UUID
    notification_id: UUID | None
    digest_id: UUID | None
    channel: Channel
    due_at: datetime
    attempts: int
    retrying: bool
    taken_over: bool
    user_id: str | None
    address: str | None
    device_id: UUID | None
    ordering_key: str | None
    reserved: bool
    recovering: bool
    type: str
    version: int
    payload: str
    collapse_key: str | None
    expires_at: datetime | None
    send_at_local: datetime | None
    accepted_at: datetime
    cancelled: bool
    producer: str
    request_id: str | None
    trace_id: str | None
    fallback_for: Channel | None
    profile: RecipientProfile
    order_blockers: Sequence[UUID | None] = ()
    failed_channel: FailedChannel | None = None
    newer: NewerMessage | None = None


LOOK_AHEAD = 2_000
"""How many due rows are looked through for lost leases: claims go by due time, so these are at the head."""

# What a claim does, in one statement:
#   due      locks the next deliveries of the lane; (lane, due_at, id) is the index itself.
#   claimed  takes the lease.
# Then it reads what a decision needs, one row for each device that can be reached. A device that moved
# to another owner is not among them: a message for one person never reaches another.
# The limits keep each subquery an index look-up; without them the planner reads whole tables.
# A claim need not survive a crash of the server, since then nobody holds it: it does not wait for the disk.
_DUE = """
    select id, false as taken_over, 0 as lost
    from deliveries
    where lane = $1
        and state in ('scheduled', 'pending', 'retrying')
        and due_at <= $2
        and (due_at, id) > ($5, $6)
        and lease is null
    order by lane, due_at, id
    limit $7
    for update skip locked
"""

# One delivery whose lease was lost; several candidates, since another worker may take the first one over.
_LOST = """
    select id, true as taken_over, alone::integer as lost
    from deliveries
    where id in (
            select head.id
            from (
                select id, due_at, leased_until
                from deliveries
                where lane = $1 and state in ('scheduled', 'pending', 'retrying') and due_at <= $2
                order by lane, due_at, id
                limit $5
            ) as head
            where head.leased_until <= $2
            order by head.due_at, head.id
            limit 10
        )
        and leased_until <= $2
    order by due_at, id
    limit 1
    for update skip locked
"""

_CLAIM = """
with due as materialized ({due}),
claimed as (
    update deliveries as d
    set lease = $3,
        leased_until = $4,
        alone = due.taken_over,
        attempts = d.attempts + due.lost,
        state = case when d.state = 'scheduled' then 'pending' else d.state end
    from due
    where d.id = due.id
    returning
        d.id, d.notification_id, d.digest_id, d.channel, d.due_at, d.attempts, d.state, due.taken_over,
        d.user_id, d.address, d.device_id, d.ordering_key, d.collapse_key, d.accept_order, d.reserved,
        d.fallback_for, d.held_by
)
select
    claimed.id,
    claimed.notification_id,
    claimed.digest_id,
    claimed.channel,
    claimed.due_at,
    claimed.attempts,
    claimed.state = 'retrying' as retrying,
    claimed.taken_over,
    claimed.user_id,
    claimed.address,
    claimed.device_id,
    claimed.ordering_key,
    claimed.reserved,
    claimed.held_by is not distinct from 'recovery' as recovering,
    n.type,
    n.version,
    coalesce(n.payload::text, '{}') as payload,
    n.collapse_key,
    n.expires_at,
    n.send_at_local,
    n.accepted_at,
    n.cancelled_at is not null as cancelled,
    coalesce(n.producer, '') as producer,
    n.request_id,
    n.trace_id,
    claimed.fallback_for,
    claimed.ordering_key is not null or claimed.collapse_key is not null or claimed.fallback_for is not null
        or claimed.notification_id is null as has_context,
    case when claimed.channel = 'email' then coalesce(claimed.address, users.email) end as mailbox,
    claimed.channel = 'email' and (
        select true
        from suppressed_addresses
        where suppressed_addresses.address = lower(coalesce(claimed.address, users.email))
        limit 1
    ) is not null as suppressed,
    case when claimed.channel <> 'push' then (
        select own.timezone
        from devices as own
        where own.user_id = claimed.user_id
            and own.provider <> 'webhook'
            and own.retired_at is null
            and own.push_enabled
        order by own.last_seen_at desc
        limit 1
    ) end as device_timezone,
    users.timezone,
    users.gmt_offset_seconds,
    users.allowed_window,
    users.locale,
    preferences.choices::text as choices,
    devices.id as destination_id,
    devices.token as destination_token,
    devices.provider as destination_provider,
    devices.platform as destination_platform,
    devices.locale as destination_locale,
    devices.timezone as destination_timezone,
    devices.last_seen_at as destination_last_seen_at,
    devices.token_kind as destination_token_kind,
    devices.secret as destination_secret
from claimed
cross join (select set_config('synchronous_commit', 'off', true)) as unhurried
left join notifications as n on n.id = claimed.notification_id
left join users on users.user_id = claimed.user_id
left join preferences on preferences.user_id = claimed.user_id
left join devices
    on claimed.channel in ('push', 'webhook')
    and devices.user_id = claimed.user_id
    and (devices.provider = 'webhook') = (claimed.channel = 'webhook')
    and devices.retired_at is null
    and devices.push_enabled
    and (claimed.device_id is null or devices.id = claimed.device_id)
order by claimed.due_at, claimed.id, devices.last_seen_at desc
"""

CLAIM = _CLAIM.replace("{due}", _DUE)
TAKE_OVER = _CLAIM.replace("{due}", _LOST)

# A delivery that waits blocks those after it in its ordering group while it is due or retried; not while it
# is scheduled for later, or held by anything but the group itself or its host.
IS_ORDER_BLOCKER = """
    earlier.state in ('scheduled', 'pending', 'retrying')
    and (earlier.state <> 'scheduled' or earlier.due_at <= $2 or earlier.held_by is not null)
    and (earlier.held_by is null or earlier.held_by = 'order' or earlier.held_by like 'host:%')
"""

# What some deliveries depend on besides, read only for those: the digest they carry, the devices that earlier
# ones of their ordering group wait for, the channel they are the fallback for, a newer message with their
# collapse key. It is a statement of its own because every part of a claim is planned again with each claim.
CONTEXT = f"""
select
    claimed.id,
    digests.type,
    digests.version,
    digests.opened_at as accepted_at,
    case when claimed.ordering_key is not null then array(
        select earlier.device_id
        from deliveries as earlier
        where earlier.ordering_key = claimed.ordering_key
            and earlier.accept_order < claimed.accept_order
            and {IS_ORDER_BLOCKER}
        limit 1000
    ) else '{{}}' end as order_blockers,
    case when claimed.fallback_for is not null then (
        select json_build_object(
            'confirmed', coalesce(bool_or(first.state in ('sent', 'delivered')), false),
            'awaited_at', max(first.due_at) filter (
                where first.state = 'scheduled' and first.due_at < 'infinity'
            )
        )::text
        from (
            select deliveries.state, deliveries.due_at
            from deliveries
            where deliveries.notification_id = claimed.notification_id
                and deliveries.user_id = claimed.user_id
                and deliveries.channel = claimed.fallback_for
            limit 1000
        ) as first
    ) end as failed_channel,
    -- One that has its place within the limits, or is a fallback, is replaced only when a newer one was sent.
    case when claimed.collapse_key is not null and not claimed.reserved and claimed.fallback_for is null
    then (
        select json_build_object(
            'version', newer_notification.version,
            'accepted_at', newer_notification.accepted_at,
            'expires_at', newer_notification.expires_at,
            'send_at_local', newer_notification.send_at_local
        )::text
        from deliveries as newer
        join notifications as newer_notification on newer_notification.id = newer.notification_id
        where newer.collapse_key = claimed.collapse_key
            and newer.accept_order > claimed.accept_order
            and newer.user_id is not distinct from claimed.user_id
            and newer.address is not distinct from claimed.address
            and newer.state in ('scheduled', 'pending', 'retrying')
            and newer.due_at <= $2
            and newer_notification.cancelled_at is null
        order by newer.accept_order desc
        limit 1
    ) end as newer
from deliveries as claimed
left join digests on claimed.notification_id is null and digests.id = claimed.digest_id
where claimed.id = any($1::uuid[])
"""  # noqa: S608 - made of constants

# Whether a lane has anything due, without touching it: a probe of its circuit breaker needs a message.
ANY_DUE = """
select true
from deliveries
where lane = $1
    and state in ('scheduled', 'pending', 'retrying')
    and due_at <= $2
    and (leased_until is null or leased_until <= $2)
order by lane, due_at, id
limit 1
"""

# For a delivery that would be accepted last.
ORDER_BLOCKERS = f"""
select earlier.device_id
from deliveries as earlier
where earlier.ordering_key = $1
    and {IS_ORDER_BLOCKER}
limit 1000
"""  # noqa: S608 - made of constants

_OF_DIGEST = ("type", "version", "accepted_at")
_fields = itemgetter(*ClaimedDelivery.__struct_fields__[:-4])
_delivery_id = itemgetter("id")
_profile = itemgetter(*RecipientProfile.__struct_fields__[:-2])
_destination = itemgetter(*(f"destination_{field}" for field in Destination._fields))
_choices = msgspec.json.Decoder()
_failed_channel = msgspec.json.Decoder(FailedChannel)
_newer = msgspec.json.Decoder(NewerMessage)


async def claim(
    connection: Connection,
    lane: str,
    *,
    lease: LeaseId,
    now: datetime,
    until: datetime,
    after: Position,
    limit: int,
) -> list[ClaimedDelivery]:
    """Take a lease on the next deliveries of a lane that are due, at most `limit`, in order.

    Those with an expired lease are left to `take_over`.
    """
    rows = await connection.fetch(CLAIM, lane, now, lease, until, after.due_at, after.id, limit)
    return await _read(connection, rows, now)


async def take_over(
    connection: Connection, lane: str, *, lease: LeaseId, now: datetime, until: datetime
) -> ClaimedDelivery | None:
    """Take the lease on one due delivery whose worker lost it, to be dispatched alone.

    The first lease may have been lost because of any other delivery of that claim and spends no attempt.
    One that is lost again while the delivery is dispatched alone does: what crashes its workers ends `dead`.
    """
    rows = await connection.fetch(TAKE_OVER, lane, now, lease, until, LOOK_AHEAD)
    return next(iter(await _read(connection, rows, now)), None)


async def _read(connection: Connection, rows: Sequence[Any], now: datetime) -> list[ClaimedDelivery]:
    dependent = list({row["id"] for row in rows if row["has_context"]})
    context = {row["id"]: row for row in await connection.fetch(CONTEXT, dependent, now)} if dependent else {}
    return [_claimed(list(same), context.get(each)) for each, same in groupby(rows, key=_delivery_id)]


async def any_due(connection: Connection, lane: str, now: datetime) -> bool:
    """Return whether a lane has a delivery that could be claimed."""
    return await connection.fetchval(ANY_DUE, lane, now) is not None


async def order_blockers(connection: Connection, ordering_key: str, now: datetime) -> set[UUID | None]:
    """Return the devices that deliveries of an ordering group wait for, None for one without a device."""
    return {row["device_id"] for row in await connection.fetch(ORDER_BLOCKERS, ordering_key, now)}


def read_profile(rows: Sequence[Any]) -> RecipientProfile:
    """Build a profile from rows that differ only in the device."""
    choices = rows[0]["choices"]
    return RecipientProfile(  # type: ignore[call-arg]
        *_profile(rows[0]),
        _choices.decode(choices) if choices else None,
        tuple(Destination._make(_destination(each)) for each in rows if each["destination_id"]),
    )


def _claimed(rows: Sequence[Any], context: Any | None) -> ClaimedDelivery:
    delivery = ClaimedDelivery(*_fields(rows[0]), read_profile(rows))  # type: ignore[call-arg]
    if context is None:
        return delivery
    failed, newer = context["failed_channel"], context["newer"]
    return msgspec.structs.replace(
        delivery,
        **({field: context[field] for field in _OF_DIGEST} if delivery.notification_id is None else {}),
        order_blockers=context["order_blockers"],
        failed_channel=_failed_channel.decode(failed) if failed else None,
        newer=_newer.decode(newer) if newer else None,
    )
