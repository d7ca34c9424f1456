"""Assigns devices to deliveries: one row for each, in the lane of its provider."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

import msgspec

from tocsin.domain.ids import DeliveryId, LeaseId
from tocsin.store.deliveries.holds import distinct_waiting
from tocsin.store.pool import Connection


class Placement(msgspec.Struct, frozen=True, kw_only=True):
    """A device for a delivery that has none; the first keeps the row, each other gets a sibling row.

    `leased` rows stay under the lease of the claim; the others wait in their lane, or behind an earlier
    one of their ordering group. `reserved` rows have their place within the limits.
    """

    delivery_id: UUID
    sibling_id: DeliveryId | None
    device_id: UUID | None
    lane: str
    leased: bool
    in_order: bool
    reserved: bool = True


# The row gets its device in the statement that inserts its siblings, so that a worker that takes over after a
# crash does not fan out again.
FAN_OUT = """
with given as materialized (
    select *
    from unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::text[], $5::boolean[], $6::boolean[], $7::boolean[])
        as given (delivery_id, sibling_id, device_id, lane, leased, in_order, reserved)
),
original as materialized (
    select d.*
    from deliveries as d
    where d.id = any($1::uuid[]) and d.lease = $8 and d.device_id is null
),
placed as (
    update deliveries as d
    set device_id = given.device_id,
        lane = given.lane,
        reserved = given.reserved,
        held_by = case when given.in_order then 'order' end,
        due_at = case when given.in_order then 'infinity' else d.due_at end,
        lease = case when given.leased then d.lease end,
        leased_until = case when given.leased then d.leased_until end
    from given
    join original on original.id = given.delivery_id
    where d.id = given.delivery_id
        and given.sibling_id is null
        -- Again, since another worker may take over between reading and writing.
        and d.lease = $8
        and d.device_id is null
    returning d.id
)
insert into deliveries (
    id, notification_id, digest_id, channel, user_id, device_id, lane, state, due_at, held_by, lease,
    leased_until, ordering_key, accept_order, collapse_key, reserved, created_at
)
select
    given.sibling_id, o.notification_id, o.digest_id, o.channel, o.user_id, given.device_id, given.lane,
    o.state,
    case when given.in_order then 'infinity' else o.due_at end,
    case when given.in_order then 'order' end,
    case when given.leased then o.lease end,
    case when given.leased then o.leased_until end,
    o.ordering_key, o.accept_order, o.collapse_key, given.reserved, $9
from placed
join original as o on o.id = placed.id
join given on given.delivery_id = o.id and given.sibling_id is not null
returning id
"""

# A delivery whose devices all belong to one other lane moves there as it is.
MOVE = """
update deliveries as d
set lane = given.lane, lease = null, leased_until = null
from unnest($1::uuid[], $2::text[]) as given (id, lane)
where d.id = given.id and d.lease = $3
"""

LOCK_LEASED = """
select id
from deliveries
where id = any($1::uuid[]) and lease = $2
order by id
for update
"""

MARK_RESERVED = """
update deliveries
set reserved = true
where id = any($1::uuid[]) and lease = $2
"""

WAITING_LANES = distinct_waiting("lane")

# Deliveries of a lane that no provider serves any more are fanned out again.
LEAVE_LANE = """
update deliveries
set lane = 'fanout'
where id in (
    select id
    from deliveries
    where lane = $1
        and state in ('scheduled', 'pending', 'retrying')
        and (leased_until is null or leased_until <= $2)
    order by lane, due_at, id
    limit $3
    for update skip locked
)
"""


async def fan_out(
    connection: Connection, placements: Sequence[Placement], lease: LeaseId, now: datetime
) -> set[UUID]:
    """Assign devices and insert siblings, whose ids are returned; a delivery that lost its lease has none."""
    columns = [[getattr(each, name) for each in placements] for name in _PLACEMENT_COLUMNS]
    return {row["id"] for row in await connection.fetch(FAN_OUT, *columns, lease, now)}


async def move(connection: Connection, lanes: Sequence[tuple[UUID, str]], lease: LeaseId) -> None:
    """Move claimed deliveries to other lanes and end their lease."""
    await connection.execute(MOVE, [each for each, _ in lanes], [lane for _, lane in lanes], lease)


async def lock_leased(connection: Connection, delivery_ids: Sequence[UUID], lease: LeaseId) -> set[UUID]:
    """Lock deliveries that are still under a lease until the transaction ends; return their ids."""
    return {row["id"] for row in await connection.fetch(LOCK_LEASED, delivery_ids, lease)}


async def mark_reserved(connection: Connection, delivery_ids: Sequence[UUID], lease: LeaseId) -> None:
    """Record that deliveries have their place within the limits."""
    await connection.execute(MARK_RESERVED, delivery_ids, lease)


async def waiting_lanes(connection: Connection) -> list[str]:
    """List the lanes in which a delivery waits."""
    return [row["value"] for row in await connection.fetch(WAITING_LANES)]


async def leave_lane(connection: Connection, lane: str, now: datetime, limit: int) -> int:
    """Move waiting deliveries of a lane to `fanout`, at most `limit`; return how many."""
    status: str = await connection.execute(LEAVE_LANE, lane, now, limit)
    return int(status.rpartition(" ")[2])


_PLACEMENT_COLUMNS = ("delivery_id", "sibling_id", "device_id", "lane", "leased", "in_order", "reserved")
