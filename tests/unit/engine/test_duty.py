"""The loop behind every duty: when it runs its step again, and what ends it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import asyncpg
import pytest
from structlog.testing import capture_logs

from tests.waiting import until
from tocsin.compose import duties
from tocsin.domain.delivery.backoff import Ladder
from tocsin.domain.errors import DatabaseError
from tocsin.engine.duty import pause, repeat

A_LONG_TIME = 3_600.0
AT_ONCE = 0.001


class Steps:
    """A step that does what it is told, round by round, and then nothing."""

    def __init__(self, *script: bool | Exception | None) -> None:
        self.rounds = 0
        self.during: Callable[[], None] | None = None
        self._script = list(script)

    async def __call__(self) -> bool | None:
        self.rounds += 1
        if self.during:
            self.during()
        come = self._script.pop(0) if self._script else None
        if isinstance(come, Exception):
            raise come
        return come


@asynccontextmanager
async def repeating(step: Steps, **options: Any) -> AsyncIterator[asyncio.Task[None]]:
    running = asyncio.create_task(repeat(step, name="test", **options))
    try:
        yield running
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_a_step_is_called_again_after_its_pause() -> None:
    step = Steps()
    async with repeating(step, every=AT_ONCE):
        await until(lambda: step.rounds > 2)


async def test_more_work_is_done_without_a_pause() -> None:
    step = Steps(True, True, False)
    async with repeating(step, every=A_LONG_TIME) as running:
        await until(lambda: step.rounds == 3)
        await asyncio.wait([running], timeout=0.02)

    assert step.rounds == 3


async def test_an_event_ends_the_pause() -> None:
    step, wake = Steps(), asyncio.Event()
    async with repeating(step, every=A_LONG_TIME, wake=wake):
        for rounds in (1, 2, 3):
            await until(lambda rounds=rounds: step.rounds == rounds)  # type: ignore[misc]
            wake.set()


async def test_an_event_during_a_step_leads_to_another() -> None:
    step, wake = Steps(), asyncio.Event()

    def once() -> None:
        step.during = None
        wake.set()

    step.during = once
    async with repeating(step, every=A_LONG_TIME, wake=wake):
        await until(lambda: step.rounds == 2)


async def test_what_postgres_says_of_a_row_is_not_logged() -> None:
    stop = asyncio.Event()

    async def step() -> None:
        stop.set()
        refused = asyncpg.UniqueViolationError("duplicate key value violates a constraint")
        refused.detail = "Key (address)=(ada@example.org) already exists."
        raise refused

    with capture_logs() as lines:
        await repeat(step, name="test", every=0.001, stop=stop)

    assert "duplicate key" in lines[0]["error"]
    assert "ada@" not in repr(lines)


@pytest.mark.parametrize("fault", [OSError("gone"), TimeoutError(), DatabaseError("does not answer")])
async def test_a_fault_of_the_database_is_logged_and_retried(fault: Exception) -> None:
    step = Steps(fault)
    with capture_logs() as lines:
        async with repeating(step, every=AT_ONCE, subject="shop"):
            await until(lambda: step.rounds > 1)

    failed, recovered = lines
    assert failed == {
        "event": "duty failed",
        "log_level": "warning",
        "duty": "test",
        "subject": "shop",
        "error": repr(fault),
        "retry_in_seconds": AT_ONCE,
    }
    assert recovered == {
        "event": "duty recovered",
        "log_level": "info",
        "duty": "test",
        "subject": "shop",
        "failures": 1,
    }


async def test_pauses_grow_by_the_backoff_and_start_over_after_a_success() -> None:
    step = Steps(OSError(), OSError(), True, OSError())
    backoff = Ladder((timedelta(milliseconds=1), timedelta(milliseconds=2)))
    with capture_logs() as lines:
        async with repeating(step, every=A_LONG_TIME, backoff=backoff):
            await until(lambda: step.rounds == 5)

    failed = [line for line in lines if line["event"] == "duty failed"]
    assert [line["retry_in_seconds"] for line in failed] == [0.001, 0.002, 0.001]
    assert [line["failures"] for line in lines if line["event"] == "duty recovered"] == [2, 1]


async def test_an_event_does_not_shorten_the_pause_after_a_fault() -> None:
    step, wake = Steps(OSError()), asyncio.Event()
    async with repeating(step, every=A_LONG_TIME, wake=wake) as running:
        await until(lambda: step.rounds == 1)
        wake.set()
        await asyncio.wait([running], timeout=0.02)

    assert step.rounds == 1


async def test_a_bug_is_logged_and_ends_the_duty() -> None:
    step = Steps(None, ZeroDivisionError())
    with capture_logs() as lines, pytest.raises(ZeroDivisionError):
        await repeat(step, name="test", every=AT_ONCE)

    assert [(line["event"], line["duty"], line["log_level"]) for line in lines] == [
        ("duty crashed", "test", "error")
    ]


async def test_more_faults_can_be_retried() -> None:
    step = Steps(ZeroDivisionError())
    with capture_logs() as lines:
        async with repeating(step, every=AT_ONCE, faults=(ArithmeticError,)):
            await until(lambda: step.rounds > 1)

    logged = [(line["event"], line["log_level"]) for line in lines]
    assert logged == [("duty failed", "error"), ("duty recovered", "info")]


@pytest.mark.parametrize("script", [(), (OSError(),)], ids=["idle", "after a fault"])
async def test_stop_lets_the_step_finish_and_ends_every_pause(script: tuple[Exception, ...]) -> None:
    step, stop = Steps(*script), asyncio.Event()
    async with repeating(step, every=A_LONG_TIME, stop=stop) as running:
        await until(lambda: step.rounds == 1)
        stop.set()
        async with asyncio.timeout(5):
            await running

    assert step.rounds == 1


async def test_a_pause_ends_with_the_first_of_its_events() -> None:
    first, second = asyncio.Event(), asyncio.Event()
    second.set()
    async with asyncio.timeout(5):
        await pause(None, first, None, second)
        await pause(AT_ONCE, first)
        await pause(AT_ONCE)
        await pause(0, first)

    assert not first.is_set()


async def test_a_fault_in_place_of_a_cancellation_does_not_keep_a_duty_running() -> None:
    """A connection given back in the middle of a statement may raise one, or the step may have handled it."""
    for raised in (asyncpg.InterfaceError("another operation is in progress"), None):
        started = asyncio.Event()

        async def step(raised: Exception | None = raised, started: asyncio.Event = started) -> None:
            started.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                if raised is not None:
                    raise raised from None

        running = asyncio.create_task(repeat(step, name="duty", every=AT_ONCE))
        await started.wait()
        running.cancel()
        async with asyncio.timeout(5):
            await asyncio.gather(running, return_exceptions=True)

        assert running.cancelled()


class CrashingDuty:
    """Crashes a number of times; then it runs until it is cancelled."""

    def __init__(self, crashes: int) -> None:
        self._crashes = crashes
        self.starts = 0
        self.ended = False

    async def run(self) -> None:
        self.starts += 1
        if self.starts <= self._crashes:
            raise RuntimeError("a bug")
        try:
            await asyncio.Event().wait()
        finally:
            self.ended = True


async def test_a_duty_that_crashes_beside_an_api_or_a_relay_is_started_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(duties, "RESTART", Ladder((timedelta(seconds=AT_ONCE),)))
    crashing, sound = CrashingDuty(2), CrashingDuty(0)
    with capture_logs() as logs:
        async with duties.duties_running(crashing, sound):
            await until(lambda: crashing.starts == 3)

    assert sound.starts == 1
    assert (crashing.ended, sound.ended) == (True, True)
    failed = [line for line in logs if line["event"] == "duty failed"]
    assert [(line["duty"], line["log_level"]) for line in failed] == [("CrashingDuty", "error")] * 2
