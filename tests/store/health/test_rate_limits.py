"""The slots of a rate limit, which the workers of a provider share."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from tests.store.health.test_circuit_breakers import (
    WORKERS,
    close,
    slot,
    trip,
)
from tocsin.store.health.circuit_breakers import (
    grant,
    troubled,
)
from tocsin.store.pool import Pool


async def begins(pool: Pool, counts: Sequence[int], rate: float) -> list[tuple[float, int]]:
    """Ask for slots from all connections at once; give when each begins, and for how many it is."""
    started = asyncio.get_running_loop().time()

    async def ask(count: int) -> tuple[float, int]:
        wait = await slot(pool, count, rate)
        return asyncio.get_running_loop().time() - started + wait, count

    return sorted(await asyncio.gather(*map(ask, counts)))


async def test_slots_of_many_workers_follow_each_other_and_hold_the_rate(pool: Pool) -> None:
    counts, rate = [100, 1, 50, 100, 7] * WORKERS, 1.0
    before: datetime = await pool.fetchval("select clock_timestamp()")

    slots = await begins(pool, counts, rate)

    # A slot is at least a second long, so that what the asking itself takes does not hide an overlap.
    late = 0.9
    assert slots[0][0] < late
    for (begin, count), (following, _) in pairwise(slots):
        assert following - begin >= count / rate - late
    free_at: datetime = await pool.fetchval("select free_at from circuits where name = 'expo'")
    taken = (free_at - before).total_seconds()
    assert sum(counts) / rate <= taken < sum(counts) / rate + 5


async def test_time_in_which_nobody_asked_gives_no_credit(pool: Pool) -> None:
    await slot(pool, 1, 1_000_000)
    await pool.execute(
        "update circuits set free_at = free_at - interval '1 hour', slots_at[1] = free_at - interval '1 hour'"
    )

    waits = [await slot(pool, 100, 10) for _ in range(3)]

    assert waits[0] == 0
    assert waits[1:] == [pytest.approx(10, abs=2), pytest.approx(20, abs=2)]


@pytest.mark.parametrize(
    "sizes",
    [
        pytest.param([100] * 40, id="equal"),
        pytest.param([82, *[100] * 6] * 6, id="a small one before large ones"),
        pytest.param([22, *[100] * 5, 40] * 6, id="remainders"),
        pytest.param([97] * 40, id="no divisor of the rate"),
        pytest.param([1] * 500 + [100] * 12, id="single ones, then batches"),
        pytest.param([600, 1, 599, 600, 300, 301] * 3, id="as many as a second may have"),
    ],
)
async def test_no_window_has_more_than_the_rate_whatever_the_sizes_of_its_slots(
    pool: Pool, sizes: Sequence[int]
) -> None:
    rate, within = 600, 1.03
    slots = []
    async with pool.acquire() as connection:
        for size in sizes:
            granted = await grant(connection, "expo", size, rate, 0, within=within)
            slots.append((granted.begins, size))
        listed: int = await connection.fetchval("select cardinality(slots_at) from circuits")

    # Slots begin at microseconds, but times of the database arrive as floats of seconds since 1970.
    sums = [sum(size for at, size in slots if begin <= at < begin + within - 1e-5) for begin, _ in slots]
    assert max(sums) <= rate
    assert listed <= 101
    taken = slots[-1][0] - slots[0][0]
    assert sum(sizes) / taken >= 0.8 * rate


@pytest.mark.parametrize(
    ("seconds_ago", "share"),
    [(0, 0.1), (500, 0.55), (1_000, 1), (5_000, 1), (-30, 0.1), (-5_000, 0.1)],
)
async def test_the_rate_grows_after_a_rest(pool: Pool, seconds_ago: float, share: float) -> None:
    await trip(pool, name="expo")
    closed_at = datetime.now(UTC) - timedelta(seconds=seconds_ago)
    await close(pool, closed_at, "expo")

    first, second = [await slot(pool, 1_000, 1, ramp_seconds=1_000) for _ in range(2)]

    assert first == 0
    assert second == pytest.approx(1_000 / share, rel=0.05)


async def test_without_a_ramp_the_rate_is_whole_at_once(pool: Pool) -> None:
    await trip(pool, name="expo")
    await close(pool, datetime.now(UTC), "expo")

    assert [await slot(pool, 100, 1) for _ in range(2)] == [0, pytest.approx(100, abs=2)]


async def test_a_slot_neither_opens_nor_closes_a_circuit(pool: Pool) -> None:
    await slot(pool, 1, 10)
    assert await troubled(pool) == {}

    opened = await trip(pool, name="expo")
    await slot(pool, 1, 10)

    assert await troubled(pool) == {"expo": opened}
