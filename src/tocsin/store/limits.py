"""Counts messages to people and devices against their limits, across all workers."""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

import msgspec

from tocsin.domain.limits import Allowance
from tocsin.store.pool import Connection
from tocsin.store.rows import transpose


class LimitRequest(msgspec.Struct, frozen=True):
    """A delivery and every allowance it needs a place in."""

    delivery_id: UUID
    allowances: tuple[Allowance, ...]


# Takes all places at once where there is room for all; a counter without room for its share is not
# returned. Every worker locks them in the same order, to avoid deadlocks.
TAKE = """
insert into limit_counters as counters (key, window_ends_at, used)
select key, window_ends_at, wanted
from unnest($1::text[], $2::timestamptz[], $3::integer[], $4::integer[])
    as given (key, window_ends_at, wanted, most)
where wanted <= most
order by key, window_ends_at
on conflict (key, window_ends_at) do update
set used = counters.used + excluded.used
where counters.used + excluded.used <= (
    select most
    from unnest($1::text[], $2::timestamptz[], $4::integer[]) as given (key, window_ends_at, most)
    where given.key = counters.key and given.window_ends_at = counters.window_ends_at
    limit 1
)
returning counters.key
"""

# Writing a counter as it is locks it and tells its value, whether it is new or not.
LOCK = """
insert into limit_counters as counters (key, window_ends_at, used)
select key, window_ends_at, 0
from unnest($1::text[], $2::timestamptz[]) as given (key, window_ends_at)
order by key, window_ends_at
on conflict (key, window_ends_at) do update
set used = counters.used
returning counters.key, counters.window_ends_at, counters.used
"""

COUNT = """
insert into limit_counters (key, window_ends_at, used)
select key, window_ends_at, used
from unnest($1::text[], $2::timestamptz[], $3::integer[]) as given (key, window_ends_at, used)
on conflict (key, window_ends_at) do update
set used = excluded.used
"""

GIVE_BACK = """
update limit_counters as counters
set used = counters.used - given.places
from unnest($1::text[], $2::timestamptz[], $3::integer[]) as given (key, window_ends_at, places)
where counters.key = given.key and counters.window_ends_at = given.window_ends_at
"""

USED = """
select counters.key, counters.used
from unnest($1::text[], $2::timestamptz[]) as given (key, window_ends_at)
cross join lateral (
    select key, used
    from limit_counters
    where key = given.key and window_ends_at = given.window_ends_at
    limit 1
) as counters
"""


class _NoRoomError(Exception):
    """Some counter has no room for all that was asked of it."""


async def reserve(connection: Connection, requests: Sequence[LimitRequest]) -> dict[UUID, Allowance]:
    """Reserve the places of each delivery, in order; return the used-up allowance of those without."""
    try:
        async with connection.transaction():
            await _take_all(connection, requests)
    except _NoRoomError:
        return await _take_in_turn(connection, requests)
    return {}


async def _take_all(connection: Connection, requests: Sequence[LimitRequest]) -> None:
    wanted: Counter[tuple[str, datetime]] = Counter()
    most: dict[tuple[str, datetime], int] = {}
    for request in requests:
        for each in request.allowances:
            window = each.key, each.ends_at
            wanted[window] += 1
            # Two versions of a type may name different limits for the one counter they share.
            most[window] = min(most.get(window, each.limit), each.limit)
    rows = await connection.fetch(
        TAKE,
        [key for key, _ in wanted],
        [ends_at for _, ends_at in wanted],
        list(wanted.values()),
        list(most.values()),
    )
    if len(rows) < len(wanted):
        raise _NoRoomError


async def _take_in_turn(connection: Connection, requests: Sequence[LimitRequest]) -> dict[UUID, Allowance]:
    windows = sorted({(each.key, each.ends_at) for request in requests for each in request.allowances})
    keys, ends = [key for key, _ in windows], [end for _, end in windows]
    async with connection.transaction():
        used = {(row[0], row[1]): row[2] for row in await connection.fetch(LOCK, keys, ends)}
        refused = _share(requests, used)
        await connection.execute(COUNT, keys, ends, [used[window] for window in windows])
    return refused


async def give_back(connection: Connection, allowances: Sequence[Allowance]) -> None:
    """Release one place of each allowance; runs in the transaction that reserved them."""
    places = Counter((each.key, each.ends_at) for each in allowances)
    keys, ends = [key for key, _ in places], [end for _, end in places]
    await connection.execute(GIVE_BACK, keys, ends, list(places.values()))


async def used(connection: Connection, allowances: Sequence[Allowance]) -> dict[str, int]:
    """Read how much of each allowance is used up, without using any."""
    rows = await connection.fetch(USED, *transpose(allowances, ("key", "ends_at")))
    return {row["key"]: row["used"] for row in rows}


def _share(requests: Sequence[LimitRequest], used: dict[tuple[str, datetime], int]) -> dict[UUID, Allowance]:
    """Assign the places that are left, first come first served, and count them."""
    refused: dict[UUID, Allowance] = {}
    for request in requests:
        full = next((each for each in request.allowances if used[each.key, each.ends_at] >= each.limit), None)
        if full is not None:
            refused[request.delivery_id] = full
            continue
        for each in request.allowances:
            used[each.key, each.ends_at] += 1
    return refused
