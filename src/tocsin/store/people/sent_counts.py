"""How many messages devices got: read from deliveries, so that sending one writes nothing to its device."""

from collections.abc import Sequence
from datetime import datetime
from typing import TypeVar
from uuid import UUID

import msgspec

from tocsin.store.pool import Connection, Pool
from tocsin.store.rows import fetch_all, transpose

MOST_COUNTED = 10_000
"""How many of a person's newest deliveries are looked through."""


class Counted(msgspec.Struct, frozen=True, kw_only=True):
    """The columns of `devices` that count what was sent to one, without the deliveries that are stored.

    What a device had got until its `last_sent_at` is in its `notification_count`: older versions counted
    there with each message, and devices that become one bring their counts.
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
        limit $4
    ) as newest
    where state in ('sent', 'delivered')
    group by device_id
)
select given.id, sent.count, sent.last_at
from unnest($2::uuid[], $3::timestamptz[]) as given (id, last_sent_at)
join got on got.device_id = given.id
cross join lateral (
    select count(*) as count, max(settled_at) as last_at
    from unnest(got.times) as counted (settled_at)
    where settled_at > coalesce(given.last_sent_at, '-infinity')
) as sent
where sent.count > 0
"""

OF_DEVICES = """
select id, user_id, notification_count, last_sent_at
from devices
where id = any($1::uuid[])
"""


async def add_sent(connection: Connection | Pool, rows: Sequence[CountedRow]) -> list[CountedRow]:
    """Return rows of one person's devices with what was sent to each since its `last_sent_at`.

    It may read 10,000 deliveries: call it when no lock is held.
    """
    if not rows:
        return []
    columns = transpose(rows, ("id", "last_sent_at"))
    found = await connection.fetch(SENT, rows[0].user_id, *columns, MOST_COUNTED)
    sent = {row["id"]: (row["count"], row["last_at"]) for row in found}
    return [
        msgspec.structs.replace(row, notification_count=row.notification_count + count, last_sent_at=last_at)
        for row in rows
        for count, last_at in [sent.get(row.id, (0, row.last_sent_at))]
    ]


async def totals(connection: Connection | Pool, device_ids: Sequence[UUID]) -> tuple[int, datetime | None]:
    """Read how many messages some devices of a person got together, and when the last one was sent."""
    counted = await add_sent(connection, await fetch_all(connection, Counted, OF_DEVICES, device_ids))
    times = [row.last_sent_at for row in counted if row.last_sent_at]
    return sum(row.notification_count for row in counted), max(times, default=None)
