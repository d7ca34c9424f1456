"""How far behind the readers of outboxes, streams and queues are, as they measured it last."""

from collections.abc import Iterable
from datetime import datetime
from typing import Literal, TypeAlias

import msgspec

from tocsin.store.pool import Connection
from tocsin.store.rows import fetch_all

SourceKind: TypeAlias = Literal["outbox", "stream", "queue"]

LONGEST_LIST = 1_000


class SourceLag(msgspec.Struct, frozen=True, kw_only=True):
    """What a reader knows of its source; ages are in seconds, so that its clock does not matter.

    `waiting` is None if it cannot be counted. `failing` is whether the source cannot be read at present.
    """

    kind: SourceKind
    name: str
    waiting: int | None
    waiting_or_more: bool
    oldest_age: float | None
    measured_age: float | None
    progressed_age: float | None
    failing: bool
    last_error: str | None
    last_error_age: float | None


class SourceRow(msgspec.Struct, frozen=True, kw_only=True):
    """A source as it is stored, with the offset and lease of a stream; its reader wrote at `seen_at`."""

    kind: SourceKind
    name: str
    stream: str | None
    entry_id: str | None
    entries_read: int | None
    is_leased: bool | None
    waiting: int | None
    waiting_or_more: bool
    oldest_at: datetime | None
    measured_at: datetime | None
    progressed_at: datetime | None
    failing: bool
    last_error: str | None
    last_error_at: datetime | None
    seen_at: datetime | None


# Of several readers, each knows its own progress and its own errors; the last of either counts. A reader that
# has just started has not measured yet, and leaves what the one before it measured. The second is for ages
# that are not exact: a statement takes a while to arrive.
SAVE = """
insert into source_lags as known (
    kind, name, waiting, waiting_or_more, oldest_at, measured_at, progressed_at, failing, last_error,
    last_error_at, seen_at
)
select
    given.kind, given.name, given.waiting, given.or_more, now() - make_interval(secs => given.oldest),
    now() - make_interval(secs => given.measured), now() - make_interval(secs => given.progressed),
    given.failing, given.error, now() - make_interval(secs => given.error_age), now()
from unnest(
    $1::text[], $2::text[], $3::bigint[], $4::boolean[], $5::float8[], $6::float8[], $7::float8[],
    $8::boolean[], $9::text[], $10::float8[]
) as given (kind, name, waiting, or_more, oldest, measured, progressed, failing, error, error_age)
on conflict (kind, name) do update
set waiting = case when excluded.measured_at is null then known.waiting else excluded.waiting end,
    waiting_or_more = case
        when excluded.measured_at is null then known.waiting_or_more else excluded.waiting_or_more
    end,
    oldest_at = case when excluded.measured_at is null then known.oldest_at else excluded.oldest_at end,
    measured_at = coalesce(excluded.measured_at, known.measured_at),
    progressed_at = greatest(excluded.progressed_at, known.progressed_at),
    failing = excluded.failing,
    last_error = case
        when excluded.last_error_at >= coalesce(known.last_error_at, '-infinity') - interval '1 second'
        then excluded.last_error
        else known.last_error
    end,
    last_error_at = greatest(excluded.last_error_at, known.last_error_at),
    seen_at = excluded.seen_at
"""

# A stream may have been read by a version that did not measure, and under another key: the reader's is the
# one that was leased last.
LIST = """
select
    kind, name, known.stream, known.entry_id, known.entries_read, known.is_leased, lag.waiting,
    coalesce(lag.waiting_or_more, false) as waiting_or_more, lag.oldest_at, lag.measured_at,
    greatest(lag.progressed_at, known.moved_at) as progressed_at, coalesce(lag.failing, false) as failing,
    lag.last_error, lag.last_error_at, lag.seen_at
from (
    select *, 1 as place
    from source_lags
    order by kind, name
    limit $1
) as lag
full join (
    select
        'stream' as kind, name, stream, entry_id, entries_read, moved_at,
        coalesce(leased_until > now(), false) as is_leased,
        row_number() over (
            partition by name order by leased_until desc nulls last, moved_at desc nulls last
        ) as place
    from stream_offsets
    order by name, stream
    limit $1
) as known using (kind, name, place)
order by kind, name, known.stream
limit $1
"""


async def save(connection: Connection, lags: Iterable[SourceLag]) -> None:
    """Store what readers know of their sources, in the order of the key to avoid deadlocks."""
    ordered = sorted(lags, key=lambda each: (each.kind, each.name))
    columns = [[getattr(each, field) for each in ordered] for field in SourceLag.__struct_fields__]
    await connection.execute(SAVE, *columns)


async def list_all(connection: Connection) -> list[SourceRow]:
    """List every source that was ever read, by kind and name."""
    return await fetch_all(connection, SourceRow, LIST, LONGEST_LIST)
