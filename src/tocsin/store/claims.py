"""Claiming what is due."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import NamedTuple
from uuid import UUID

from tocsin.domain.catalog import Channel
from tocsin.domain.ids import LeaseId
from tocsin.store.pool import Connection


class Position(NamedTuple):
    """A place in the due index; a round of claims goes on from where the last one ended."""

    due_at: datetime
    id: UUID


START = Position(datetime(1, 1, 1, tzinfo=UTC), UUID(int=0))


class ClaimedDelivery(NamedTuple):
    """A delivery under lease, with all a send needs, read at this moment.

    The fields stand in the order of the columns of CLAIM.
    """

    id: UUID
    notification_id: UUID
    channel: Channel
    due_at: datetime
    attempts: int
    rescued: bool
    user_id: str | None
    address: str | None
    device_id: UUID | None
    token: str | None
    provider: str | None
    platform: str | None
    locale: str | None
    type: str
    version: int
    payload: str
    collapse_key: str | None
    expires_at: datetime | None
    producer: str
    request_id: str | None
    trace_id: str | None


# What a claim does, in one statement:
#   due       locks the next deliveries in order; (channel, due_at, id) is the index itself.
#   reach     finds the devices of this moment for pushes that have none yet.
#   siblings  gives every device but the first a delivery of its own, to be claimed next.
#   claimed   takes the lease; an expired lease counts as a lost attempt.
# `reach` carries all of `due` along: joining the two by id would be quadratic in the batch,
# since neither has an index or statistics. A device that went to another owner meanwhile gives no token:
# what was meant for one person never reaches another. A claim need not outlive a crash of the server, since
# then nothing holds it any more: it does not wait for the disk.
CLAIM = """
with due as materialized (
    select id, notification_id, channel, user_id, address, device_id, due_at, lease is not null as rescued
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
reach as materialized (
    select due.*, active.device_ids
    from due
    left join lateral (
        select array_agg(devices.id order by devices.id) as device_ids
        from devices
        where devices.user_id = due.user_id and devices.retired_at is null and devices.push_enabled
    ) as active on due.device_id is null and due.channel = 'push'
),
siblings as (
    insert into deliveries (
        id, notification_id, channel, user_id, address, device_id, state, due_at, created_at
    )
    select
        uuid7(), reach.notification_id, reach.channel, reach.user_id, reach.address, other.device_id,
        'pending', reach.due_at, $2
    from reach
    cross join lateral unnest(reach.device_ids[2:]) as other (device_id)
),
claimed as (
    update deliveries as d
    set lease = $3,
        leased_until = $4,
        attempts = d.attempts + reach.rescued::integer,
        state = case when d.state = 'scheduled' then 'pending' else d.state end,
        device_id = coalesce(d.device_id, reach.device_ids[1])
    from reach
    where d.id = reach.id
    returning
        d.id, d.notification_id, d.channel, d.due_at, d.attempts, reach.rescued, d.user_id, d.address,
        d.device_id
)
select
    claimed.id,
    claimed.notification_id,
    claimed.channel,
    claimed.due_at,
    claimed.attempts,
    claimed.rescued,
    claimed.user_id,
    claimed.address,
    claimed.device_id,
    devices.token,
    devices.provider,
    devices.platform,
    coalesce(devices.locale, users.locale) as locale,
    n.type,
    n.version,
    n.payload::text,
    n.collapse_key,
    n.expires_at,
    n.producer,
    n.request_id,
    n.trace_id
from claimed
cross join (select set_config('synchronous_commit', 'off', true)) as unhurried
join notifications as n on n.id = claimed.notification_id
left join users on users.user_id = claimed.user_id
left join devices
    on devices.id = claimed.device_id
    and devices.user_id = claimed.user_id
    and devices.retired_at is null
    and devices.push_enabled
order by claimed.due_at, claimed.id
"""


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
    return list(_claimed(rows))


def _claimed(rows: list[tuple[object, ...]]) -> Iterator[ClaimedDelivery]:
    return map(ClaimedDelivery._make, rows)
