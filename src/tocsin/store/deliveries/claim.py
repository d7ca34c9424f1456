"""Claiming what is due."""

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple
from uuid import UUID

import msgspec

from tocsin.domain.catalog import Channel
from tocsin.domain.decide import Person
from tocsin.domain.delivery.message import TargetKind
from tocsin.domain.ids import LeaseId
from tocsin.store.pool import Connection


class Position(NamedTuple):
    """A place in the due index; a round of claims goes on from where the last one ended."""

    due_at: datetime
    id: UUID


START = Position(datetime(1, 1, 1, tzinfo=UTC), UUID(int=0))


class ReachedDevice(NamedTuple):
    """A device or an endpoint that can be reached at this moment; a mailbox or a topic has no id."""

    id: UUID | None
    token: str
    provider: str
    platform: str
    locale: str | None = None
    timezone: str | None = None
    last_seen_at: datetime | None = None
    token_kind: TargetKind = "token"  # noqa: S105 - a kind of token, not one
    secret: str | None = None

    def __repr__(self) -> str:
        """Name it; never show the token or the secret."""
        return f"ReachedDevice({self.id}, {self.provider}, {self.platform})"


class ClaimedDelivery(msgspec.Struct, frozen=True):
    """A delivery under lease, with all a send needs, read at this moment.

    The fields stand in the order of the columns of CLAIM, as far as they have one of their own.
    `devices` are those of the person now, the one used last first; of a delivery that has its
    device already, that one alone, if it is still theirs. `fallback_for` names the channel that this
    one stands in for, `confirmed` tells that the other has reached the person, and `awaited_at` when
    it will be tried first, if it waits for its time.
    """

    id: UUID
    notification_id: UUID
    channel: Channel
    due_at: datetime
    attempts: int
    rescued: bool
    behind: bool
    superseded: bool
    user_id: str | None
    address: str | None
    device_id: UUID | None
    ordering_key: str | None
    reserved: bool
    digest_key: str | None
    digest_id: UUID | None
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
    mailbox: str | None
    suppressed: bool
    fallback_for: Channel | None
    confirmed: bool
    awaited_at: datetime | None
    person: Person
    locale: str | None
    devices: tuple[ReachedDevice, ...]


# What a claim does, in one statement:
#   due      locks the next deliveries in order; (channel, due_at, id) is the index itself.
#   claimed  takes the lease; an expired lease counts as a lost attempt.
# Then it reads what a decision needs, one row for each device that can be reached. A device that went
# to another owner meanwhile is none of them: what was meant for one person never reaches another.
# The limits keep each of those a look-up: without them the planner reads all that is suppressed, or walks the
# due index for the latest time.
# A claim need not outlive a crash of the server, since then nothing holds it any more: it does not wait
# for the disk.
_NEXT = """
with due as materialized (
    select id, lease is not null as rescued
    from deliveries
    where channel = $1
        and state in ('scheduled', 'pending', 'retrying')
        and due_at <= $2
        and (due_at, id) > ($5, $6)
        and (leased_until is null or leased_until <= $2)
    order by channel, due_at, id
    limit $7
    for update skip locked
),
"""
_NAMED = """
with due as materialized (
    select id, lease is not null as rescued
    from deliveries
    where id = any($5::uuid[])
        and channel = $1
        and state in ('scheduled', 'pending', 'retrying')
        and due_at <= $2
        and (leased_until is null or leased_until <= $2)
    order by id
    for update skip locked
),
"""
_TAKEN = """
claimed as (
    update deliveries as d
    set lease = $3,
        leased_until = $4,
        attempts = d.attempts + due.rescued::integer,
        state = case when d.state = 'scheduled' then 'pending' else d.state end
    from due
    where d.id = due.id
    returning
        d.id, d.notification_id, d.channel, d.due_at, d.attempts, due.rescued, d.user_id, d.address,
        d.device_id, d.ordering_key, d.collapse_key, d.reserved, d.digest_key, d.digest_id, d.fallback_for
)
select
    claimed.id,
    claimed.notification_id,
    claimed.channel,
    claimed.due_at,
    claimed.attempts,
    claimed.rescued,
    claimed.ordering_key is not null and exists (
        select
        from deliveries as earlier
        where earlier.ordering_key = claimed.ordering_key
            and earlier.notification_id < claimed.notification_id
            and earlier.state in ('scheduled', 'pending', 'retrying')
    ) as behind,
    claimed.collapse_key is not null and exists (
        select
        from deliveries as newer
        where newer.collapse_key = claimed.collapse_key
            and newer.notification_id > claimed.notification_id
            and newer.state in ('scheduled', 'pending', 'retrying')
    ) as superseded,
    claimed.user_id,
    claimed.address,
    claimed.device_id,
    claimed.ordering_key,
    claimed.reserved,
    claimed.digest_key,
    claimed.digest_id,
    n.type,
    n.version,
    n.payload::text,
    n.collapse_key,
    n.expires_at,
    n.send_at_local,
    n.accepted_at,
    n.cancelled_at is not null,
    n.producer,
    n.request_id,
    n.trace_id,
    case when claimed.channel = 'email' then coalesce(claimed.address, users.email) end,
    claimed.channel = 'email' and (
        select true
        from suppressed_addresses
        where suppressed_addresses.address = lower(coalesce(claimed.address, users.email))
        limit 1
    ) is not null,
    claimed.fallback_for,
    claimed.fallback_for is not null and coalesce((
        select bool_or(first.state in ('sent', 'delivered'))
        from (
            select deliveries.state
            from deliveries
            where deliveries.notification_id = claimed.notification_id
                and deliveries.user_id = claimed.user_id
                and deliveries.channel = claimed.fallback_for
            limit 1000
        ) as first
    ), false),
    case when claimed.fallback_for is not null then (
        select max(first.due_at) filter (where first.state = 'scheduled' and first.due_at < 'infinity')
        from (
            select deliveries.state, deliveries.due_at
            from deliveries
            where deliveries.notification_id = claimed.notification_id
                and deliveries.user_id = claimed.user_id
                and deliveries.channel = claimed.fallback_for
            limit 1000
        ) as first
    ) end,
    users.timezone,
    users.gmt_offset_seconds,
    users.allowed_window,
    preferences.choices::text,
    users.locale,
    devices.id,
    devices.token,
    devices.provider,
    devices.platform,
    devices.locale,
    devices.timezone,
    devices.last_seen_at,
    devices.token_kind,
    devices.secret
from claimed
cross join (select set_config('synchronous_commit', 'off', true)) as unhurried
join notifications as n on n.id = claimed.notification_id
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

CLAIM = _NEXT + _TAKEN
CLAIM_NAMED = _NAMED + _TAKEN

# Looks ahead in the due index, past what waits for others, for people with a device of certain providers.
SCOUT = """
select looked_at.due_at, looked_at.id, (
    select true
    from devices
    where devices.user_id = looked_at.user_id
        and devices.retired_at is null
        and devices.push_enabled
        and devices.provider = any($5::text[])
        and (looked_at.device_id is null or devices.id = looked_at.device_id)
    limit 1
) is not null as wanted
from (
    select due_at, id, user_id, device_id
    from deliveries
    where channel = $1
        and state in ('scheduled', 'pending', 'retrying')
        and due_at <= $2
        and (due_at, id) > ($3, $4)
        and (leased_until is null or leased_until <= $2)
    order by channel, due_at, id
    limit $6
) as looked_at
"""

_PERSON_AT = 31
_DEVICE_AT = 36


async def claim(
    connection: Connection,
    channel: str,
    *,
    lease: LeaseId,
    now: datetime,
    until: datetime,
    after: Position,
    limit: int,
) -> list[ClaimedDelivery]:
    """Take a lease on the next deliveries that are due, at most `limit`, in order."""
    rows = await connection.fetch(CLAIM, channel, now, lease, until, after.due_at, after.id, limit)
    return [_claimed(list(same)) for _, same in groupby(rows, key=_first)]


async def scout(
    connection: Connection,
    channel: str,
    providers: Sequence[str],
    *,
    now: datetime,
    after: Position,
    look_at: int,
) -> tuple[list[UUID], Position]:
    """Name due deliveries that some providers can be used for, among the next ones; tell where to go on."""
    rows = await connection.fetch(SCOUT, channel, now, after.due_at, after.id, providers, look_at)
    ended = len(rows) < look_at
    return [row[1] for row in rows if row[2]], START if ended else Position(rows[-1][0], rows[-1][1])


async def claim_named(
    connection: Connection,
    channel: str,
    *,
    lease: LeaseId,
    now: datetime,
    until: datetime,
    ids: Sequence[UUID],
) -> list[ClaimedDelivery]:
    """Take a lease on deliveries by name, as far as they are due and free."""
    rows = await connection.fetch(CLAIM_NAMED, channel, now, lease, until, ids)
    return [_claimed(list(same)) for _, same in groupby(rows, key=_first)]


_first = itemgetter(0)
_choices = msgspec.json.Decoder()


def read_person(fields: Sequence[Any]) -> tuple[Person, str | None]:
    """Put a person together from timezone, offset, window, choices and locale."""
    timezone, offset, window, choices, locale = fields
    return Person(
        timezone=timezone,
        gmt_offset_seconds=offset,
        allowed_window=window,
        choices=_choices.decode(choices) if choices else None,
    ), locale


def read_devices(rows: Sequence[Sequence[Any]], at: int) -> tuple[ReachedDevice, ...]:
    """Put the devices together that stand at the end of joined rows."""
    return tuple(ReachedDevice._make(row[at:]) for row in rows if row[at])


def _claimed(rows: Sequence[tuple[Any, ...]]) -> ClaimedDelivery:
    """Put the rows of one delivery together."""
    row = rows[0]
    person, locale = read_person(row[_PERSON_AT:_DEVICE_AT])
    fields: list[Any] = [*row[:_PERSON_AT], person, locale, read_devices(rows, _DEVICE_AT)]
    return ClaimedDelivery(*fields)
