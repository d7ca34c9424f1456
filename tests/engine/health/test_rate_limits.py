"""When a worker uses its slots, whatever its clock and that of the database show."""

import asyncio
import time
from typing import Any

import pytest

from tocsin.engine.health import rate_limits
from tocsin.engine.health.database_clock import FORGET_SECONDS, SAMPLES, DatabaseClock
from tocsin.engine.health.rate_limits import LATEST, RateLimit
from tocsin.store.health.circuit_breakers import Slot, grant
from tocsin.store.pool import Pool

RATE = 600.0


class ShiftedClock:
    """A clock of the process that can be moved."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.ahead


class ManualClock:
    """A clock that stands still."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


async def test_an_answer_that_is_read_late_makes_no_slot_begin_late(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A busy process reads its first answer long after the database wrote it."""
    granted: list[Slot] = []

    async def read_late(*arguments: Any, **options: Any) -> Slot:
        slot = await grant(*arguments, **options)
        if not granted:
            await asyncio.sleep(5 * LATEST)
        granted.append(slot)
        return slot

    monkeypatch.setattr(rate_limits, "grant", read_late)
    limit = RateLimit(pool, "expo", RATE, 0)

    await limit.wait(100)
    left_at = time.time()

    # The first slot had passed.
    assert len(granted) > 1
    # The clock of this machine is that of the database.
    assert 0 <= left_at - granted[-1].begins < 4 * LATEST


@pytest.mark.parametrize("seconds", [10.0, -10.0])
async def test_a_clock_that_is_set_keeps_nobody_from_sending(pool: Pool, seconds: float) -> None:
    clock = ShiftedClock()
    limit = RateLimit(pool, "expo", RATE, 0, monotonic=clock)
    await limit.wait(1)

    clock.ahead = seconds

    async with asyncio.timeout(8):
        await limit.wait(1)


def test_the_closest_bounds_count_and_widen_with_time() -> None:
    monotonic = ManualClock()
    clock = DatabaseClock(monotonic)
    bounds = []
    # The database is 50 seconds ahead; requests and answers take turns in being slow.
    for there, back in ((0.010, 0.001), (0.001, 0.030), (0.200, 0.200)):
        asked_at = monotonic.now
        monotonic.now += there
        database_now = monotonic.now + 50
        monotonic.now += back
        clock.record(asked_at, database_now)
        bounds.append((clock.least_ahead, clock.most_ahead))

    assert bounds[0] == pytest.approx((49.999, 50.010))
    assert bounds[1] == pytest.approx((49.999, 50.001), abs=1e-5)
    assert bounds[2][0] < bounds[1][0]
    assert bounds[2][1] > bounds[1][1]
    assert clock.uncertainty == pytest.approx(0.002, abs=1e-3)


class FarDatabase:
    """Counts how often it is asked for its time; each answer takes long."""

    def __init__(self, monotonic: ManualClock) -> None:
        self.asked = 0
        self._monotonic = monotonic

    async def fetchval(self, _: str) -> float:
        self.asked += 1
        self._monotonic.now += 0.1
        return self._monotonic.now


async def test_a_database_that_is_far_away_is_asked_a_few_times_and_again_after_a_pause() -> None:
    monotonic = ManualClock()
    clock, database = DatabaseClock(monotonic), FarDatabase(monotonic)
    asked = []
    for pause in (0.0, 1.0, FORGET_SECONDS + 1):
        monotonic.now += pause
        await clock.measure(database)
        asked.append(database.asked)

    assert asked == [SAMPLES, SAMPLES, 2 * SAMPLES]
