"""Broadcasts: how far the audience of a notification is expanded into deliveries."""

from collections.abc import Mapping
from datetime import datetime
from uuid import UUID

import msgspec

from tocsin.domain.ids import NotificationId
from tocsin.store.pool import Connection, Pool
from tocsin.store.rows import fetch_one

FIRST_CHUNK = 20
"""How many people the first chunk has; the next ones grow with what the lanes take."""


class NewBroadcast(msgspec.Struct, frozen=True, kw_only=True):
    """A broadcast to start at a time; with a `segment_id`, to the members of that upload."""

    starts_at: datetime
    segment_id: UUID | None = None


class BroadcastRow(msgspec.Struct, frozen=True, kw_only=True):
    """A broadcast; `expanded` of `total` people have deliveries, `position` is the last one looked at.

    `total` is unknown until the audience was counted. `chunk_at` is when the last chunk was written.
    """

    notification_id: UUID
    state: str
    segment_id: UUID | None
    position: str
    expanded: int
    total: int | None
    chunk_size: int
    chunk_at: datetime | None
    next_at: datetime
    waiting_for: str | None
    finished_at: datetime | None


_COLUMNS = ", ".join(BroadcastRow.__struct_fields__)

CREATE = f"""
insert into broadcasts (notification_id, segment_id, chunk_size, next_at)
select notification_id, segment_id, {FIRST_CHUNK}, next_at
from unnest($1::uuid[], $2::uuid[], $3::timestamptz[]) as given (notification_id, segment_id, next_at)
"""  # noqa: S608 - made of constants

GET = f"""
select {_COLUMNS}
from broadcasts
where notification_id = $1
"""  # noqa: S608 - made of constants

# Whoever locks it expands it. Several broadcasts take turns by the time of their next chunk.
TAKE = f"""
select {_COLUMNS}
from broadcasts
where state = 'expanding'
order by next_at
limit 1
for update skip locked
"""  # noqa: S608 - made of constants

# An erasure waits for the chunks that are being written, to find the person's deliveries in them.
LOCK_EXPANDING = """
select notification_id
from broadcasts
where state = 'expanding'
order by notification_id
for update
"""

COUNTED = """
update broadcasts
set total = $2
where notification_id = $1
"""

ADVANCE = """
update broadcasts
set position = $2, expanded = expanded + $3, chunk_size = $4, chunk_at = $5, next_at = $5, waiting_for = null
where notification_id = $1
"""

POSTPONE = """
update broadcasts
set next_at = $2, waiting_for = $3
where notification_id = $1 and state = 'expanding'
"""

# The position is somebody's id: nobody needs it any more.
FINISH = """
update broadcasts
set state = $2, position = '', waiting_for = null, finished_at = $3
where notification_id = $1 and state = 'expanding'
"""


async def create(connection: Connection, broadcasts: Mapping[NotificationId, NewBroadcast]) -> None:
    """Store broadcasts by their notifications."""
    segments = [each.segment_id for each in broadcasts.values()]
    await connection.execute(
        CREATE, list(broadcasts), segments, [each.starts_at for each in broadcasts.values()]
    )


async def get(connection: Connection | Pool, notification_id: UUID) -> BroadcastRow | None:
    """Read the broadcast of a notification; None if it is none."""
    return await fetch_one(connection, BroadcastRow, GET, notification_id)


async def take(connection: Connection) -> BroadcastRow | None:
    """Lock the broadcast whose next chunk is due first, unless another worker has it."""
    return await fetch_one(connection, BroadcastRow, TAKE)


async def wait_for_chunks(connection: Connection) -> None:
    """Wait until no chunk is being written, and keep the next ones from it until the transaction ends."""
    await connection.execute(LOCK_EXPANDING)


async def set_total(connection: Connection, notification_id: UUID, total: int) -> None:
    """Store how many people the audience has."""
    await connection.execute(COUNTED, notification_id, total)


async def advance(
    connection: Connection, row: BroadcastRow, position: str, people: int, size: int, now: datetime
) -> None:
    """Move a broadcast that is under lock past the people of a chunk."""
    await connection.execute(ADVANCE, row.notification_id, position, people, size, now)


async def postpone(
    connection: Connection, notification_id: UUID, until: datetime, waiting_for: str | None
) -> None:
    """Set when the next chunk is tried, and why not before."""
    await connection.execute(POSTPONE, notification_id, until, waiting_for)


async def finish(connection: Connection, notification_id: UUID, state: str, now: datetime) -> None:
    """End the expansion: `finished`, `cancelled` or `expired`."""
    await connection.execute(FINISH, notification_id, state, now)
