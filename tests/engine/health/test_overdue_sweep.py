"""The recovery sweep: overdue deliveries are counted and logged, and the workers notified."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from structlog.testing import capture_logs

from tests.engine.stage import MovableClock, Stage, StubProvider
from tests.rows import add_delivery, add_device
from tests.waiting import found
from tocsin.domain.ids import uuid7
from tocsin.engine.health.overdue_sweep import NAME, Sweep
from tocsin.engine.health.provider_health import NEWEST
from tocsin.store.health.overdue import OVERDUE
from tocsin.store.health.provider_health import AlarmRecord, list_alarms
from tocsin.store.pool import Pool
from tocsin.store.sources import progress

NOW = datetime(2026, 3, 2, 12, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


class Sweeping:
    """Sweeps once for every five minutes that the clock is moved."""

    def __init__(self, pool: Pool, clock: MovableClock, *served: str) -> None:
        self._pool = pool
        self._clock = clock
        self._sweep = Sweep(pool, frozenset(served), clock)

    async def __call__(self) -> list[Any]:
        """Return the log lines about overdue deliveries."""
        with capture_logs() as logs:
            await self._sweep._sweep_if_due()
            self._clock.advance(5 * MINUTE)
            await self._sweep._sweep_if_due()
        return [entry for entry in logs if entry["event"] == "overdue deliveries found"]

    async def note(self) -> str | None:
        [row] = [row for row in await progress.list_progress(self._pool) if row.name == NAME]
        return row.note

    async def alarms(self) -> Sequence[AlarmRecord]:
        return await list_alarms(self._pool, cleared=False, before=NEWEST, limit=10)


@pytest.fixture
def sweeping(pool: Pool, clock: MovableClock) -> Sweeping:
    clock.move_to(NOW)
    return Sweeping(pool, clock, "fcm")


async def waiting_since(pool: Pool, due_at: datetime, **changes: Any) -> UUID:
    return await add_delivery(pool, due_at=due_at, **changes)


async def test_nothing_is_said_of_what_goes_its_way(pool: Pool, sweeping: Sweeping) -> None:
    leased = {"lease": uuid7(), "leased_until": NOW + 20 * MINUTE}
    await waiting_since(pool, NOW - 20 * MINUTE, **leased)
    await waiting_since(pool, NOW + 20 * MINUTE)
    await waiting_since(pool, NOW - 20 * MINUTE, state="sent")
    await pool.execute(
        "update deliveries set due_at = 'infinity' where id = $1",
        await waiting_since(pool, NOW, held_by="type:other"),
    )

    assert await sweeping() == []
    assert await sweeping.note() == "no delivery is overdue"


async def test_what_is_late_is_counted_and_told(pool: Pool, sweeping: Sweeping) -> None:
    await waiting_since(pool, NOW, state="retrying")
    await waiting_since(pool, NOW + MINUTE)
    expired = {"lease": uuid7(), "leased_until": NOW + MINUTE}
    await waiting_since(pool, NOW + 2 * MINUTE, **expired)

    [entry] = await sweeping()

    assert (entry["log_level"], entry["lane"], entry["deliveries"]) == ("warning", "fcm", 3)
    assert 300 <= entry["oldest_late_seconds"] < 310
    assert await sweeping.note() == "3 overdue in lane fcm, the oldest since 2026-03-02 12:01:00Z"
    assert await sweeping.alarms() == []


async def test_a_stall_of_a_quarter_of_an_hour_raises_an_alarm(pool: Pool, sweeping: Sweeping) -> None:
    await waiting_since(pool, NOW + MINUTE)

    levels = [[entry["log_level"] for entry in await sweeping()] for _ in range(4)]

    assert levels == [["warning"], ["warning"], ["warning"], ["error"]]
    [alarm] = await sweeping.alarms()
    assert (alarm.provider, alarm.code) == ("lane:fcm", "overdue")
    await pool.execute("update deliveries set state = 'sent'")
    await sweeping()
    assert await sweeping.alarms() == []


async def test_a_backlog_that_is_worked_off_raises_none(pool: Pool, sweeping: Sweeping) -> None:
    waiting = [await waiting_since(pool, NOW - (60 - number) * MINUTE) for number in range(6)]

    for done in waiting[:5]:
        [entry] = await sweeping()
        assert entry["log_level"] == "warning"
        await pool.execute("update deliveries set state = 'sent' where id = $1", done)

    assert await sweeping.alarms() == []


async def test_a_lane_without_a_provider_is_told_until_it_is_empty(pool: Pool, sweeping: Sweeping) -> None:
    await waiting_since(pool, NOW - 20 * MINUTE, lane="smtp")

    [entry] = await sweeping()
    assert "smtp is not configured: configure it or cancel them" in entry["detail"]
    assert "smtp is not configured" in (await sweeping.note() or "")
    [entry] = await sweeping()

    assert entry["log_level"] == "error"
    assert [alarm.code for alarm in await sweeping.alarms()] == ["lane_unserved"]
    await pool.execute("update deliveries set state = 'cancelled'")
    assert await sweeping() == []
    assert await sweeping.alarms() == []


async def test_two_workers_sweep_once(pool: Pool, clock: MovableClock) -> None:
    clock.move_to(NOW)
    await waiting_since(pool, NOW)
    sweeps = [Sweep(pool, frozenset({"fcm"}), clock) for _ in range(2)]
    for sweep in sweeps:
        await sweep._sweep_if_due()
    clock.advance(5 * MINUTE)

    with capture_logs() as logs:
        await asyncio.gather(*(sweep._sweep_if_due() for sweep in sweeps))

    assert len([entry for entry in logs if entry["event"] == "overdue deliveries found"]) == 1


async def test_a_worker_sweeps_among_its_duties(stage: Stage) -> None:
    await add_device(stage.pool, token="ada")

    async def swept() -> bool:
        return any(row.name == NAME for row in await progress.list_progress(stage.pool))

    async with stage.working(StubProvider()):
        await found(swept)


async def test_the_sweep_reads_the_due_index(pool: Pool) -> None:
    async with pool.acquire() as connection:
        await connection.execute(f"prepare swept as {OVERDUE}")
        lines = await connection.fetch(f"explain execute swept('{{push,email}}', '{NOW}', '{NOW}', 100)")

    plan = "\n".join(line[0] for line in lines)
    assert "deliveries_due" in plan
    assert "Sort" not in plan.partition("Limit")[2]
