"""The rows of an outbox: lock them, record their results, prune them, count them."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple, TypeAlias

import msgspec

from tocsin.ingress.outbox.table import Table
from tocsin.store.pool import Connection

# Of all relays that keep the order of one outbox, only one reads at a time, until its transaction ends.
# The lock is taken before the statement that reads, so that this sees what the previous relay recorded.
KEEP_ORDER = "select pg_try_advisory_xact_lock(hashtextextended('tocsin relay ' || $1, 0))"

# Held-back keys are passed as a list: a join would sort the whole backlog.
TAKE = """
select
    {id} as id,
    left(coalesce({payload}::text, ''), {cut}) as payload,
    {type_text} as type,
    coalesce({failed_attempts}, 0) as failed_attempts,
    {key} as ordering_key,
    {order_time} as order_time
from {table}
where {published_at} is null
    and ({next_retry_at} is null or {next_retry_at} <= $1::timestamptz)
    and ({key} is null or {key} <> all($3::text[]))
order by {order}
limit $2
{lock}
"""

HELD_BACK = """
select distinct {key} as ordering_key
from {table}
where {published_at} is null and {next_retry_at} > $1::timestamptz and {key} is not null
"""

# Later messages for the recipients of these rows must not overtake them.
RETRYING = """
select {order_time} as order_time, {id} as id, {next_retry_at}::timestamptz as retry_at
from {table}
where {published_at} is null and {next_retry_at} > $1::timestamptz
"""

PUBLISH = """
update {table}
set {published_at} = $2::timestamptz, {last_error} = null
where {id} = any($1)
"""

FAIL = """
update {table}
set {failed_attempts} = $2, {next_retry_at} = $3::timestamptz, {last_error} = $4
where {id} = $1
"""

HOLD = """
update {table}
set {next_retry_at} = $2::timestamptz, {last_error} = $3
where {id} = any($1)
"""

PRUNE = """
delete from {table}
where ctid = any(array(
    select ctid
    from {table}
    where {published_at} < $1::timestamptz
    limit $2
    for update skip locked
))
"""

STATUS = """
select
    count(*) as waiting,
    {oldest} as oldest,
    count(*) filter (where {failed_attempts} > 0) as failed,
    count(*) filter (where {failed_attempts} >= $1) as alarming
from {table}
where {published_at} is null
"""


# The first in the order in which rows are taken, by the same index: not the oldest of all by a count of them.
OLDEST = """
select {created}
from {table}
where {published_at} is null
order by {order}
limit 1
"""

WAITING = """
select count(*)
from (select from {table} where {published_at} is null limit $1) as waiting
"""


class Position(NamedTuple):
    """Where a row stands in the order of its outbox; the time is None where ids are increasing numbers."""

    order_time: Any
    id: Any
    retry_at: datetime | None = None


class Row(NamedTuple):
    """One row that waits; rows with the same ordering key are handled one after the other."""

    id: Any
    payload: str
    type: str | None
    failed_attempts: int
    ordering_key: str | None
    order_time: Any = None

    @property
    def position(self) -> Position:
        """Where it stands in the order of its outbox."""
        return Position(self.order_time, self.id)


class Published(msgspec.Struct, frozen=True):
    """The row became a notification, or was published to a topic, now or earlier."""

    id: Any


class Failed(msgspec.Struct, frozen=True, kw_only=True):
    """The row was refused and will be retried."""

    id: Any
    attempts: int
    retry_at: datetime
    error: str


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """The row waits behind another and is looked at again; that spends no attempt."""

    id: Any
    retry_at: datetime
    reason: str


RowResult: TypeAlias = Published | Failed | Held


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """How many rows of an outbox wait, and how many of them failed."""

    waiting: int
    oldest: datetime | None
    failed: int
    alarming: int


async def keep_order(connection: Connection, table: Table) -> bool:
    """Lock out other readers until the transaction ends; return False if another has the lock."""
    locked: bool = await connection.fetchval(KEEP_ORDER, table.name)
    return locked


async def held_back(connection: Connection, table: Table, now: datetime) -> list[str]:
    """List the ordering keys of rows that wait for a retry."""
    return [row["ordering_key"] for row in await connection.fetch(table.sql(HELD_BACK), now)]


async def retrying(connection: Connection, table: Table, now: datetime) -> list[Position]:
    """List the positions of rows that wait for a retry."""
    return [Position(**row) for row in await connection.fetch(table.sql(RETRYING), now)]


async def take(
    connection: Connection, table: Table, *, now: datetime, limit: int, held: Sequence[str] = ()
) -> list[Row]:
    """Lock rows that are due, for as long as the transaction lasts."""
    return [Row(**row) for row in await connection.fetch(table.sql(TAKE), now, limit, held)]


async def record(connection: Connection, table: Table, results: Sequence[RowResult], now: datetime) -> None:
    """Record the results of rows."""
    if published := [result.id for result in results if isinstance(result, Published)]:
        await connection.execute(table.sql(PUBLISH), published, now)
    if failed := [result for result in results if isinstance(result, Failed)]:
        await connection.executemany(
            table.sql(FAIL), [(row.id, row.attempts, row.retry_at, row.error) for row in failed]
        )
    held: defaultdict[tuple[datetime, str], list[Any]] = defaultdict(list)
    for result in results:
        if isinstance(result, Held):
            held[result.retry_at, result.reason].append(result.id)
    for (retry_at, reason), ids in held.items():
        await connection.execute(table.sql(HOLD), ids, retry_at, reason)


async def prune(connection: Connection, table: Table, before: datetime, limit: int) -> int:
    """Delete some rows that were published before a time, and count them."""
    done: str = await connection.execute(table.sql(PRUNE), before, limit)
    return int(done.rpartition(" ")[2])


async def oldest_waiting(connection: Connection, table: Table) -> datetime | None:
    """Return when the first row that waits was written; None if none waits or no column says so."""
    oldest: datetime | None = await connection.fetchval(table.sql(OLDEST))
    return oldest


async def count_waiting(connection: Connection, table: Table, most: int) -> int:
    """Count the rows that wait, up to a number."""
    return int(await connection.fetchval(table.sql(WAITING), most))


async def status(connection: Connection, table: Table, alarming: int) -> Status:
    """Count the rows that wait, that failed, and that failed at least `alarming` times."""
    return Status(**await connection.fetchrow(table.sql(STATUS), alarming))
