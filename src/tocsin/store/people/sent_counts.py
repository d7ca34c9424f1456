"""How many messages devices got: read from deliveries, so that sending one writes nothing to its device."""

from collections.abc import Sequence
from datetime import datetime
from typing import TypeVar
from uuid import UUID

import msgspec

from tocsin.store.pool import Connection, Pool
from tocsin.store.rows import fetch_all

MOST_COUNTED = 10_000
"""How many of a person's newest deliveries are looked through."""


class Counted(msgspec.Struct, frozen=True, kw_only=True):
    """The columns of `devices` that count what was sent to one, without the deliveries that are stored.

    What a device had got until its `last_sent_at` is in its `notification_count`: older versions counted
    there with each message, and devices that become one bring their counts. So is what was pruned since, the
    last of it sent at `pruned_sent_at`.
    """

    id: UUID
    user_id: str
    notification_count: int
    last_sent_at: datetime | None


CountedRow = TypeVar("CountedRow", bound=Counted)

# A person's deliveries are read once, whatever the number of devices. They are grouped before the join: for a
# plan made without statistics, a join would compare every delivery with every device.
SENT = """
with got as materialized (
    select device_id, array_agg(settled_at) as times
    from (
        select device_id, state, settled_at
        from deliveries
        where user_id = $1
        order by notification_id desc
        limit $3
    ) as newest
    where state in ('sent', 'delivered')
    group by device_id
)
select
    devices.id,
    devices.notification_count + coalesce(sent.count, 0) as count,
    greatest(devices.last_sent_at, devices.pruned_sent_at, sent.last_at) as last_at
from devices
left join got on got.device_id = devices.id
left join lateral (
    select count(*) as count, max(settled_at) as last_at
    from unnest(got.times) as counted (settled_at)
    where settled_at > coalesce(devices.last_sent_at, '-infinity')
) as sent on true
-- Not "=", by which the planner could read all devices of the person for each.
where devices.id = any($2::uuid[]) and devices.user_id is not distinct from $1
"""

OF_DEVICES = """
select id, user_id, notification_count, last_sent_at
from devices
where id = any($1::uuid[])
"""


async def add_sent(connection: Connection | Pool, rows: Sequence[CountedRow]) -> list[CountedRow]:
    """Return rows of one person's devices with all that was sent to each.

    It may read 10,000 deliveries: call it when no lock is held.
    """
    if not rows:
        return []
    found = await connection.fetch(SENT, rows[0].user_id, [row.id for row in rows], MOST_COUNTED)
    # One that is not found went to another person, or was erased, since the rows were read.
    sent = {row["id"]: (row["count"], row["last_at"]) for row in found}
    return [
        msgspec.structs.replace(row, notification_count=count, last_sent_at=last_at)
        for row in rows
        for count, last_at in [sent.get(row.id, (row.notification_count, row.last_sent_at))]
    ]


async def totals(connection: Connection | Pool, device_ids: Sequence[UUID]) -> tuple[int, datetime | None]:
    """Read how many messages some devices of a person got together, and when the last one was sent."""
    counted = await add_sent(connection, await fetch_all(connection, Counted, OF_DEVICES, device_ids))
    times = [row.last_sent_at for row in counted if row.last_sent_at]
    return sum(row.notification_count for row in counted), max(times, default=None)
