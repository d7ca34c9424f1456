"""Makes dead letters pending again: they wait, are decided about and sent like any delivery that is due.

Their failed attempts stay on record; the count of attempts begins anew. What had a device that can no longer
be reached goes to the person's devices of this moment that do not have the message yet. A member of a digest
joins the open digest of its key together with the others that ended with it.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple, TypeAlias
from uuid import UUID

import msgspec

from tocsin.domain.decide import Step
from tocsin.domain.delivery.states import DEAD_LETTERS
from tocsin.domain.ids import new_delivery_id, uuid7
from tocsin.store.deliveries.digests import NewMember, join
from tocsin.store.deliveries.settle import encode_steps
from tocsin.store.pool import Connection
from tocsin.store.rows import fetch_all


class Message(NamedTuple):
    """What one person gets by one channel of one notification, to however many devices."""

    notification_id: UUID
    user_id: str | None
    channel: str


FreeDevices: TypeAlias = Mapping[Message, list[tuple[UUID, str]]]
"""The devices that can be reached and have nothing of a message, with their providers."""


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A dead letter under lock, and what may keep it from being replayed.

    It is `reachable` without a device, or while its device is active and its owner's; it is `withdrawn` if
    its owner wants no pushes to that device; it is `superseded` once its fallback was sent, or is replayed.
    """

    id: UUID
    notification_id: UUID
    digest_id: UUID | None
    channel: str
    user_id: str | None
    erased: bool
    cancelled: bool
    expired: bool
    superseded: bool
    collapsed: bool
    fallback_for: str | None
    first_channel_pending: bool
    withdrawn: bool
    reachable: bool

    @property
    def message(self) -> Message:
        """What it is a part of."""
        return Message(self.notification_id, self.user_id, self.channel)

    @property
    def stands_in_for(self) -> Message | None:
        """The message by the channel that it is the fallback for."""
        if self.fallback_for is None:
            return None
        return Message(self.notification_id, self.user_id, self.fallback_for)


class Placed(msgspec.Struct, frozen=True):
    """A dead letter to replay, to another device than before if one is given."""

    id: UUID
    device_id: UUID | None = None
    lane: str | None = None


class Sibling(msgspec.Struct, frozen=True):
    """A further device for a dead letter that is replayed."""

    id: UUID
    original_id: UUID
    device_id: UUID
    lane: str


# What one recipient got after a notification, newest first: the limit bounds what is read of busy ones.
_NEWER_WAS_SENT = """
        select true
        from (
            select other.user_id, other.collapse_key, other.accept_order, other.state
            from deliveries as other
            where {recipient} and other.notification_id > deliveries.notification_id
            order by {column} desc, other.notification_id desc
            limit 500
        ) as newer
        where newer.collapse_key = deliveries.collapse_key
            and newer.accept_order > deliveries.accept_order
            and newer.user_id is not distinct from deliveries.user_id
            and newer.state in ('sent', 'delivered')
        limit 1
"""
_TO_USER = _NEWER_WAS_SENT.format(recipient="other.user_id = deliveries.user_id", column="other.user_id")
_TO_ADDRESS = _NEWER_WAS_SENT.format(
    recipient="""other.address is not null
                and other.address <> 'erased'
                and other.address = deliveries.address""",
    column="other.address",
)

# For wall times, the time to live is counted from the earliest zone's, as in the sweep of what waits.
CANDIDATES = f"""
select
    deliveries.id, deliveries.notification_id, digest.id as digest_id, deliveries.channel,
    deliveries.user_id, coalesce(deliveries.address = 'erased', false) as erased, notification.cancelled,
    notification.expired,
    (
        select true
        from deliveries as fallback
        where fallback.notification_id = deliveries.notification_id
            and fallback.user_id = deliveries.user_id
            and fallback.fallback_for = deliveries.channel
            and fallback.state in ('sent', 'delivered', 'pending')
        limit 1
    ) is not null as superseded,
    case
        when deliveries.collapse_key is null or digest.id is not null then false
        when deliveries.user_id is not null then ({_TO_USER}) is not null
        else ({_TO_ADDRESS}) is not null
    end as collapsed,
    deliveries.fallback_for,
    deliveries.fallback_for is not null and (
        select coalesce(
            bool_or(first.state = 'pending' or first.state = 'retrying' and not first.recovering), false
        )
        from (
            select same.state, same.recovering
            from deliveries as same
            where same.notification_id = deliveries.notification_id
                and same.user_id = deliveries.user_id
                and same.channel = deliveries.fallback_for
            limit 1000
        ) as first
    ) as first_channel_pending,
    coalesce((
        select not devices.push_enabled
        from devices
        where devices.id = deliveries.device_id and devices.user_id = deliveries.user_id
        limit 1
    ), false) as withdrawn,
    deliveries.device_id is null or (
        select true
        from devices
        where devices.id = deliveries.device_id
            and devices.user_id = deliveries.user_id
            and devices.retired_at is null
        limit 1
    ) is not null as reachable
from deliveries
cross join lateral (
    select
        notifications.cancelled_at is not null as cancelled,
        coalesce(
            notifications.expires_at <= $2::timestamptz - case
                when notifications.send_at_local is null then interval '0' else interval '26 hours'
            end,
            false
        ) as expired
    from notifications
    where notifications.id = deliveries.notification_id
    limit 1
) as notification
left join lateral (
    select digests.id
    from digests
    where digests.id = deliveries.digest_id
    limit 1
) as digest on true
where deliveries.id = any($1::uuid[]) and deliveries.state = any($3::text[])
order by deliveries.id
for update of deliveries
"""  # noqa: S608 - made of constants

FREE_DEVICES = """
select wanted.notification_id, wanted.user_id, wanted.channel, device.id, device.provider
from unnest($1::uuid[], $2::text[], $3::text[]) as wanted (notification_id, user_id, channel)
cross join lateral (
    select devices.id, devices.provider, devices.last_seen_at
    from devices
    where devices.user_id = wanted.user_id
        and (devices.provider = 'webhook') = (wanted.channel = 'webhook')
        and devices.retired_at is null
        and devices.push_enabled
        and (
            select true
            from deliveries as other
            where other.notification_id = wanted.notification_id
                and other.channel = wanted.channel
                and other.device_id = devices.id
            limit 1
        ) is null
    order by devices.last_seen_at desc
    limit 1000
) as device
order by device.last_seen_at desc, device.id
"""

# A place within the limits that was reserved within a day is kept; beyond, it counts again.
REPLAY = """
update deliveries as d
set state = 'pending',
    reason = null,
    attempts = 0,
    due_at = least($4::timestamptz, clock_timestamp()),
    held_by = null,
    unknown_type = null,
    recovering = false,
    lease = null,
    leased_until = null,
    alone = false,
    reserved = d.reserved and given.device_id is null and d.settled_at > $4 - interval '1 day',
    device_id = coalesce(given.device_id, d.device_id),
    lane = coalesce(given.lane, d.lane),
    digest_id = null,
    settled_at = null,
    decisions = coalesce(merge_decisions(d.decisions, $5::jsonb), $5::jsonb)
from unnest($1::uuid[], $2::uuid[], $3::text[]) as given (id, device_id, lane)
where d.id = given.id and d.state = any($6::text[])
returning d.lane
"""

ADD_SIBLINGS = """
insert into deliveries (
    id, notification_id, channel, user_id, device_id, lane, state, due_at, ordering_key, accept_order,
    collapse_key, created_at, decisions
)
select
    given.id, d.notification_id, d.channel, d.user_id, given.device_id, given.lane, 'pending', d.due_at,
    d.ordering_key, d.accept_order, d.collapse_key, $5::timestamptz, $6::jsonb
from unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::text[]) as given (id, original_id, device_id, lane)
join deliveries as d on d.id = given.original_id
"""

MEMBERS = """
select
    d.id as delivery_id, digests.key, digests.type, digests.version, d.channel, d.user_id, d.address, d.lane
from deliveries as d
join digests on digests.id = d.digest_id
join notifications as n on n.id = d.notification_id
where d.digest_id = any($1::uuid[])
    and d.state = any($2::text[])
    and n.cancelled_at is null
    and coalesce(n.expires_at > $3, true)
order by d.id
for update of d
"""

REPLAY_MEMBERS = """
update deliveries as d
set state = 'pending',
    reason = null,
    attempts = 0,
    due_at = 'infinity',
    held_by = 'digest',
    unknown_type = null,
    recovering = false,
    reserved = false,
    settled_at = null,
    decisions = coalesce(merge_decisions(d.decisions, $2::jsonb), $2::jsonb)
where d.id = any($1::uuid[])
"""

# As for a notification that is rescheduled: its time to live begins again.
RENEW = """
update notifications
set expires_at = $2 + (
    expires_at - greatest(
        accepted_at, coalesce(send_at, (send_at_local at time zone 'UTC') - interval '14 hours')
    )
)
where expires_at <= $2
    and id = any(
        $1::uuid[] || array(
            select notification_id
            from deliveries
            where digest_id = any($3::uuid[]) and notification_id is not null and state = any($4::text[])
        )
    )
"""

WAKE = "select pg_notify(current_schema() || '_due', $1)"


async def candidates(connection: Connection, ids: Sequence[UUID], now: datetime) -> list[Candidate]:
    """Lock dead letters in the order of their ids, without those that are none any more."""
    return await fetch_all(connection, Candidate, CANDIDATES, ids, now, DEAD_LETTERS)


async def free_devices(connection: Connection, lost: Iterable[Candidate]) -> FreeDevices:
    """List the devices that each message can go to, those seen last first."""
    messages = {each.message for each in lost}
    found: dict[Message, list[tuple[UUID, str]]] = {message: [] for message in messages}
    if messages:
        for row in await connection.fetch(FREE_DEVICES, *map(list, zip(*messages, strict=True))):
            message = Message(row["notification_id"], row["user_id"], row["channel"])
            found[message].append((row["id"], row["provider"]))
    return found


async def renew(connection: Connection, dead_letters: Sequence[Candidate], now: datetime) -> None:
    """Begin the time to live of dead letters again where it is over, and of all members of their digests."""
    ids = [each.notification_id for each in dead_letters]
    digest_ids = [each.digest_id for each in dead_letters if each.digest_id is not None]
    await connection.execute(RENEW, ids, now, digest_ids, DEAD_LETTERS)


async def replay(
    connection: Connection, placed: Sequence[Placed], siblings: Sequence[Sibling], step: Step, now: datetime
) -> int:
    """Make dead letters pending, to be sent by themselves, and notify their lanes; return how many."""
    steps = encode_steps([step])
    rows = await connection.fetch(
        REPLAY,
        [each.id for each in placed],
        [each.device_id for each in placed],
        [each.lane for each in placed],
        now,
        steps,
        DEAD_LETTERS,
    )
    if siblings:
        columns = [[getattr(each, name) for each in siblings] for name in Sibling.__struct_fields__]
        await connection.execute(ADD_SIBLINGS, *columns, now, steps)
    if lanes := {row["lane"] for row in rows} | {each.lane for each in siblings}:
        await connection.execute(WAKE, ",".join(sorted(lanes)))
    return len(rows)


async def replay_digests(
    connection: Connection, digest_ids: Sequence[UUID], step: Step, now: datetime
) -> int:
    """Make members of digests that ended as dead letters wait for a new digest; return how many.

    Those that were cancelled or are past their time to live stay as they are.
    """
    members = [
        NewMember(**row, due_at=now, digest_id=uuid7(), carrier_id=new_delivery_id())
        for row in await connection.fetch(MEMBERS, digest_ids, DEAD_LETTERS, now)
    ]
    if members:
        ids = [each.delivery_id for each in members]
        await connection.execute(REPLAY_MEMBERS, ids, encode_steps([step]))
        await join(connection, members, now)
        await connection.execute(WAKE, "")
    return len(members)
