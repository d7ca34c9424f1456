"""Periodic producers: one run at a time, none lost, none doubled, and a checkpoint that keeps step."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.engine.periodic.feeds import HOUR, MINUTE, NOON, Feed, source_of
from tests.engine.periodic.stage import PeriodicStage, a_source, numbered, poll_often
from tests.waiting import found
from tocsin.engine.periodic.run import LeaseLostError
from tocsin.periodic import Checkpoint, Yielded
from tocsin.store.sources import progress


async def test_a_producer_runs_at_its_time_and_goes_on_from_its_checkpoint(periodic: PeriodicStage) -> None:
    feed = Feed(3)
    source = source_of(feed)
    await periodic.register(source)
    assert (await periodic.progress()).next_run_at == datetime(2026, 3, 2, 12, 15, tzinfo=UTC)
    assert not await periodic.perform(source)

    periodic.clock.advance(15 * MINUTE)
    assert await periodic.perform(source)
    assert not await periodic.perform(source)
    feed.last = 5
    periodic.clock.advance(15 * MINUTE)
    assert await periodic.perform(source)

    assert await periodic.keys() == [f"number-{number}" for number in range(1, 6)]
    assert [(run.value, run.scheduled_for.minute) for run in feed.runs] == [(None, 15), (3, 30)]
    row = await periodic.progress()
    assert (row.status, row.last_value, row.accepted, row.failures) == ("idle", 5, 5, 0)
    assert feed.runs[1].last_success_at is not None
    assert row.last_success_at is not None


async def test_two_schedulers_make_one_run(periodic: PeriodicStage, monkeypatch: pytest.MonkeyPatch) -> None:
    poll_often(monkeypatch)
    begun, let_go = [], asyncio.Event()

    async def slow(checkpoint: Checkpoint) -> AsyncIterator[Yielded]:
        begun.append(checkpoint.scheduled_for)
        yield numbered(len(begun)), len(begun)
        await let_go.wait()

    source = a_source(slow)
    await periodic.register(source)
    async with periodic.scheduling(source, schedulers=2):
        periodic.clock.advance(15 * MINUTE)
        await found(lambda: _is(periodic, "running"))
        assert not await periodic.perform(source)
        let_go.set()
        await found(lambda: _is(periodic, "idle"))
        periodic.clock.advance(15 * MINUTE)
        await periodic.until_accepted(2)
        await found(lambda: _is(periodic, "idle"))

    assert [slot.minute for slot in begun] == [15, 30]


async def _is(periodic: PeriodicStage, status: str) -> bool:
    return (await periodic.progress()).status == status


@pytest.mark.parametrize(
    ("catch_up", "slots"), [("last", ["13:00"]), ("all", ["12:15", "12:30", "12:45", "13:00"]), ("none", [])]
)
async def test_missed_runs_are_made_up_for_by_policy(
    periodic: PeriodicStage, catch_up: Any, slots: list[str]
) -> None:
    feed = Feed(1)
    source = source_of(feed, catch_up=catch_up)
    await periodic.register(source)

    periodic.clock.move_to(datetime(2026, 3, 2, 13, 7, tzinfo=UTC))
    while await periodic.perform(source):
        continue

    assert [f"{run.scheduled_for:%H:%M}" for run in feed.runs] == slots
    assert (await periodic.progress()).next_run_at == datetime(2026, 3, 2, 13, 15, tzinfo=UTC)


@pytest.mark.parametrize("catch_up", ["last", "all", "none"])
async def test_a_clock_an_hour_ahead_and_back_loses_and_doubles_no_run(
    periodic: PeriodicStage, catch_up: Any
) -> None:
    """Minute by minute over three hours; for half an hour of them the clock is an hour ahead.

    The four times that the clock jumps over are each made up for by policy: one by one, or by the run
    that follows them. None comes again when the clock is set back.
    """
    feed = Feed(1)
    source = source_of(feed, catch_up=catch_up)
    await periodic.register(source)

    for minute in range(180):
        periodic.clock.move_to(NOON + minute * MINUTE + (HOUR if 60 <= minute < 90 else timedelta()))
        while await periodic.perform(source):
            continue

    slots = [run.scheduled_for for run in feed.runs]
    assert slots == sorted(set(slots))
    assert len(slots) == 11 - (0 if catch_up == "all" else 4)
    assert slots[-1] == datetime(2026, 3, 2, 14, 45, tzinfo=UTC)


async def test_a_dead_workers_run_is_taken_over_and_the_dead_can_move_nothing(
    periodic: PeriodicStage,
) -> None:
    source = source_of(Feed(3))
    await periodic.register(source)
    periodic.clock.advance(15 * MINUTE)
    dead = await periodic.claim(source)
    assert dead is not None
    assert not await periodic.perform(source)

    periodic.clock.advance(MINUTE)
    assert await periodic.perform(source)
    with pytest.raises(LeaseLostError):
        await dead._work()
    await dead.perform()

    row = await periodic.progress()
    assert (row.last_value, row.accepted, row.duplicates, row.status) == (3, 3, 0, "idle")


async def test_the_lease_is_kept_during_a_long_run(
    periodic: PeriodicStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_go = asyncio.Event()

    async def slow(_: Checkpoint) -> AsyncIterator[Yielded]:
        await let_go.wait()
        yield numbered(1), 1

    source = a_source(slow)
    await periodic.register(source)
    periodic.clock.advance(15 * MINUTE)
    monkeypatch.setattr("tests.engine.periodic.stage.LEASE", timedelta(seconds=0.3))
    periodic.tools = type(periodic.tools)(
        pool=periodic.pool,
        planner=periodic.tools.planner,
        lease_for=timedelta(seconds=0.3),
        clock=periodic.clock,
    )
    run = await periodic.claim(source)
    assert run is not None
    first = (await periodic.progress()).leased_until
    assert first is not None
    running = asyncio.create_task(run.perform())

    async def renewed() -> bool:
        until = (await periodic.progress()).leased_until
        return until is not None and until > first + timedelta(seconds=0.3)

    await found(renewed)
    let_go.set()
    await running
    assert (await periodic.progress()).last_value == 1


async def test_a_stopped_worker_leaves_its_run_to_others_at_once(
    periodic: PeriodicStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    poll_often(monkeypatch)
    stuck = asyncio.Event()

    async def endless(checkpoint: Checkpoint) -> AsyncIterator[Yielded]:
        yield numbered(1), 1
        stuck.set()
        if checkpoint.value is None:
            await asyncio.Event().wait()

    source = a_source(endless)
    await periodic.register(source)
    async with periodic.scheduling(source):
        periodic.clock.advance(15 * MINUTE)
        await asyncio.wait_for(stuck.wait(), 20)
    row = await periodic.progress()

    assert (row.status, row.lease, row.last_success_at) == ("idle", None, None)
    assert await periodic.claim(source) is not None


async def test_a_run_by_request_leaves_the_schedule_alone(periodic: PeriodicStage) -> None:
    feed = Feed(2)
    source = source_of(feed)
    await periodic.register(source)
    await periodic.request()

    assert await periodic.perform(source)
    assert not await periodic.perform(source)

    row = await periodic.progress()
    assert (row.last_value, row.run_requested_at) == (2, None)
    assert row.next_run_at == datetime(2026, 3, 2, 12, 15, tzinfo=UTC)


async def test_a_rewind_stops_the_run_under_way_and_repeats_nothing(periodic: PeriodicStage) -> None:
    source = source_of(Feed(3))
    await periodic.register(source)
    await periodic.request()
    await periodic.perform(source)
    await periodic.request()
    under_way = await periodic.claim(source)
    assert under_way is not None

    async with periodic.pool.acquire() as connection:
        assert await progress.rewind(connection, "feed", 1)
    await under_way.perform()
    assert (await periodic.progress()).last_value == 1
    await periodic.request()
    await periodic.perform(source)

    row = await periodic.progress()
    assert (row.last_value, row.accepted, row.duplicates) == (3, 3, 2)


async def test_a_checkpoint_moves_without_an_intent_and_an_intent_without_it(periodic: PeriodicStage) -> None:
    async def quiet(checkpoint: Checkpoint) -> AsyncIterator[Yielded]:
        since = checkpoint.read(datetime, default=NOON)
        yield None, since + HOUR
        yield numbered(1)

    source = a_source(quiet)
    await periodic.register(source)
    for _ in range(2):
        periodic.clock.advance(15 * MINUTE)
        await periodic.perform(source)

    row = await periodic.progress()
    assert row.last_value == (NOON + 2 * HOUR).isoformat().replace("+00:00", "Z")
    assert (row.accepted, row.duplicates) == (1, 1)


async def test_a_changed_schedule_counts_from_the_next_registration_on(periodic: PeriodicStage) -> None:
    await periodic.register(source_of(Feed(1)))
    periodic.clock.advance(20 * MINUTE)

    await periodic.register(source_of(Feed(1)))
    assert (await periodic.progress()).next_run_at.minute == 15
    await periodic.register(source_of(Feed(1), cron="0 8 * * *", timezone="Europe/Istanbul"))

    assert (await periodic.progress()).next_run_at == datetime(2026, 3, 3, 5, 0, tzinfo=UTC)
