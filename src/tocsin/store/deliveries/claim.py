"""Claims due deliveries of one lane."""

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple
from uuid import UUID

import msgspec

from tocsin.domain.catalog import Channel
from tocsin.domain.ids import DeliveryId, LeaseId, NotificationId
from tocsin.domain.people.profile import UNKNOWN_RECIPIENT, Destination, RecipientProfile
from tocsin.store.deliveries.context import (
    Deferral,
    FailedChannel,
    NewerMessage,
    decode_context,
    read_context,
)
from tocsin.store.pool import Connection


class Position(NamedTuple):
    """A position in the due index, from which the next claim continues."""

    due_at: datetime
    id: UUID


START = Position(datetime(1, 1, 1, tzinfo=UTC), UUID(int=0))


class ClaimedDelivery(msgspec.Struct, frozen=True):
    """A delivery under lease, with everything a send needs, read at this moment.

    One without a notification carries the digest named by `digest_id`. `order_blockers` are the devices that
    earlier deliveries of its ordering group wait for. The profile lists the recipient's devices of that
    channel; of a delivery that has its device, that one alone, if it is still theirs. `recovering` means
    that its attempts are used up by faults of its provider, `lost_alone` that a worker died with it while it
    was dispatched alone, `superseded` that its fallback was sent. One with a `fault` could not be decoded.
    """

    id: DeliveryId
    notification_id: NotificationId | None
    digest_id: UUID | None
    channel: Channel
    due_at: datetime
    attempts: int
    retrying: bool
    taken_over: bool
    lost_alone: bool
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
    reference: str | None
    external_id: str | None
    fallback_for: Channel | None
    profile: RecipientProfile
    order_blockers: Sequence[UUID | None] = ()
    failed_channel: FailedChannel | None = None
    newer: NewerMessage | None = None
    deferral: Deferral | None = None
    superseded: bool = False
    fault: Exception | None = None


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
        due.lost, d.user_id, d.address, d.device_id, d.ordering_key, d.collapse_key, d.accept_order,
        d.reserved, d.fallback_for, d.recovering
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
    claimed.lost > 0 as lost_alone,
    claimed.user_id,
    claimed.address,
    claimed.device_id,
    claimed.ordering_key,
    claimed.reserved,
    claimed.recovering,
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
    n.reference,
    n.external_id,
    claimed.fallback_for,
    claimed.ordering_key is not null or claimed.collapse_key is not null or claimed.fallback_for is not null
        or claimed.notification_id is null or claimed.state = 'retrying' or claimed.taken_over as has_context,
    case when claimed.channel = 'email' then coalesce(claimed.address, users.email) end as mailbox,
    claimed.channel = 'email' and (
        select true
        from suppressed_addresses
        where suppressed_addresses.address = any(suppression_keys(coalesce(claimed.address, users.email)))
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
    coalesce(users.locale, n.locale) as locale,
    users.attributes::text as attributes,
    preferences.choices::text as choices,
    devices.id as destination_id,
    devices.token as destination_token,
    devices.provider as destination_provider,
    devices.platform as destination_platform,
    devices.locale as destination_locale,
    devices.timezone as destination_timezone,
    devices.last_seen_at as destination_last_seen_at,
    devices.token_kind as destination_token_kind,
    devices.secret as destination_secret,
    devices.sender_key as destination_sender_key
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

# A slice of a row costs a fifth of reading its columns by name: claims begin with the fields of a claimed
# delivery and `has_context`, and statements end with these columns. A test compares both with the statements.
DELIVERY_COLUMNS = ClaimedDelivery.__struct_fields__[: ClaimedDelivery.__struct_fields__.index("profile")]
PROFILE_COLUMNS = (
    *RecipientProfile.__struct_fields__[:-1],
    *(f"destination_{field}" for field in Destination._fields),
)
_DELIVERY = slice(len(DELIVERY_COLUMNS))
_DESTINATION_ID = -len(Destination._fields)
_CHOICES = _DESTINATION_ID - 1
_PROFILE = slice(-len(PROFILE_COLUMNS), _CHOICES)
_DESTINATION = slice(_DESTINATION_ID, None)
_HAS_CONTEXT = len(DELIVERY_COLUMNS)
_delivery_id = itemgetter(0)
_choices = msgspec.json.Decoder()
_destination = partial(tuple.__new__, Destination)


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
    ids = [row[0] for row in rows]
    dependent = {row[0] for row in rows if row[_HAS_CONTEXT]}
    context = await read_context(connection, list(dependent), now) if dependent else {}
    if len(set(ids)) < len(ids):
        # Somebody has several devices.
        return [_claimed(list(same), context.get(each)) for each, same in groupby(rows, key=_delivery_id)]
    if not context:
        return [_claimed((row,), None) for row in rows]
    return [_claimed((row,), context.get(row[0])) for row in rows]


async def any_due(connection: Connection, lane: str, now: datetime) -> bool:
    """Return whether a lane has a delivery that could be claimed."""
    return await connection.fetchval(ANY_DUE, lane, now) is not None


def read_profile(rows: Sequence[Any]) -> RecipientProfile:
    """Build a profile from rows that differ only in the device."""
    first = rows[0]
    choices = first[_CHOICES]
    return RecipientProfile(  # type: ignore[call-arg]
        *first[_PROFILE],
        _choices.decode(choices) if choices else None,
        tuple([_destination(each[_DESTINATION]) for each in rows if each[_DESTINATION_ID]]),
    )


def _claimed(rows: Sequence[Any], context: Any | None) -> ClaimedDelivery:
    try:
        delivery = ClaimedDelivery(*rows[0][_DELIVERY], read_profile(rows))  # type: ignore[call-arg]
        if context is None:
            return delivery
        return msgspec.structs.replace(
            delivery, **decode_context(context, has_digest=delivery.notification_id is None)
        )
    except Exception as error:  # noqa: BLE001 - a row that cannot be decoded is its own fault, the others go on
        delivery = ClaimedDelivery(*rows[0][_DELIVERY], UNKNOWN_RECIPIENT)  # type: ignore[call-arg]
        return msgspec.structs.replace(delivery, fault=error)
