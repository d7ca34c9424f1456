"""Counting what a person and a device get, correctly however many workers count at once."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

import msgspec

from tocsin.domain.ids import LeaseId
from tocsin.domain.limits import Allowance
from tocsin.store.pool import Connection


class Request(msgspec.Struct, frozen=True):
    """A delivery that wants to leave, and every allowance it needs a place in."""

    delivery_id: UUID
    allowances: tuple[Allowance, ...]


ENSURE = """
insert into limit_counters (key, window_ends_at, used)
select key, window_ends_at, 0
from unnest($1::text[], $2::timestamptz[]) as given (key, window_ends_at)
order by key, window_ends_at
on conflict do nothing
"""

# Locked in one order by everybody, so that two workers wait for each other and never crosswise.
LOCK = """
select counters.key, counters.window_ends_at, counters.used
from limit_counters as counters
join unnest($1::text[], $2::timestamptz[]) as given (key, window_ends_at)
    on counters.key = given.key and counters.window_ends_at = given.window_ends_at
order by counters.key, counters.window_ends_at
for update of counters
"""

COUNT = """
update limit_counters as counters
set used = given.used
from unnest($1::text[], $2::timestamptz[], $3::integer[]) as given (key, window_ends_at, used)
where counters.key = given.key and counters.window_ends_at = given.window_ends_at
"""

# A delivery keeps its place through its retries, so it is counted once.
KEEP_PLACES = """
update deliveries
set reserved = true
where id = any($1::uuid[]) and lease = $2
"""

USED = """
select counters.key, counters.window_ends_at, counters.used
from limit_counters as counters
join unnest($1::text[], $2::timestamptz[]) as given (key, window_ends_at)
    on counters.key = given.key and counters.window_ends_at = given.window_ends_at
"""

PRUNE = """
delete from limit_counters
where window_ends_at < $1
"""


async def reserve(
    connection: Connection, requests: Sequence[Request], lease: LeaseId
) -> dict[UUID, Allowance]:
    """Give each delivery its places, in order, or name the allowance that is used up."""
    windows = sorted({(each.key, each.ends_at) for request in requests for each in request.allowances})
    keys, ends = [key for key, _ in windows], [end for _, end in windows]
    async with connection.transaction():
        await connection.execute(ENSURE, keys, ends)
        used = {(row[0], row[1]): row[2] for row in await connection.fetch(LOCK, keys, ends)}
        refused, kept = _share(requests, used)
        await connection.execute(COUNT, keys, ends, [used[window] for window in windows])
        await connection.execute(KEEP_PLACES, kept, lease)
    return refused


async def used(connection: Connection, allowances: Sequence[Allowance]) -> dict[str, int]:
    """Read how much of each allowance is used up, without using any."""
    rows = await connection.fetch(
        USED, [each.key for each in allowances], [each.ends_at for each in allowances]
    )
    return {row["key"]: row["used"] for row in rows}


async def prune(connection: Connection, before: datetime) -> None:
    """Forget windows that ended long ago."""
    await connection.execute(PRUNE, before)


def _share(
    requests: Sequence[Request], used: dict[tuple[str, datetime], int]
) -> tuple[dict[UUID, Allowance], list[UUID]]:
    refused: dict[UUID, Allowance] = {}
    kept: list[UUID] = []
    for request in requests:
        full = next((each for each in request.allowances if used[each.key, each.ends_at] >= each.limit), None)
        if full is not None:
            refused[request.delivery_id] = full
            continue
        for each in request.allowances:
            used[each.key, each.ends_at] += 1
        kept.append(request.delivery_id)
    return refused, kept
