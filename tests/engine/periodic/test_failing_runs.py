"""Runs that fail: what was accepted stays, what is refused is recorded."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from tests.engine.periodic.feeds import MINUTE, Feed, source_of
from tests.engine.periodic.stage import PeriodicStage, a_source, numbered
from tocsin.engine.health.provider_health import NEWEST
from tocsin.periodic import Checkpoint, Yielded
from tocsin.store.health.provider_health import list_alarms


async def test_a_failing_producer_backs_off_raises_an_alarm_and_leaves_others_alone(
    periodic: PeriodicStage,
) -> None:
    broken = True

    async def failing(_: Checkpoint) -> AsyncIterator[Yielded]:
        yield numbered(1), 1
        if broken:
            raise RuntimeError("the shop is closed")

    bad, good = a_source(failing, name="bad"), source_of(Feed(1), name="good")
    await periodic.register(bad, good)
    periodic.clock.advance(15 * MINUTE)
    rests = []
    for _ in range(5):
        assert await periodic.perform(bad)
        row = await periodic.progress("bad")
        assert row.retry_at is not None
        rests.append(round((row.retry_at - periodic.clock()).total_seconds()))
        assert not await periodic.perform(bad)
        periodic.clock.advance(timedelta(seconds=rests[-1] + 1))
    assert await periodic.perform(good)

    assert rests == [30, 60, 120, 240, 480]
    assert (row.status, row.failures, row.last_error) == ("failed", 5, "RuntimeError: the shop is closed")
    async with periodic.pool.acquire() as connection:
        [alarm] = await list_alarms(connection, cleared=False, before=NEWEST, limit=9)
    assert (alarm.provider, alarm.code) == ("periodic:bad", "periodic_failed")
    assert "5 times in a row: RuntimeError: the shop is closed" in alarm.detail

    broken = False
    assert await periodic.perform(bad)
    row = await periodic.progress("bad")
    assert (row.status, row.failures, row.last_error, row.retry_at) == ("idle", 0, None, None)
    assert await list_alarms(periodic.pool, cleared=False, before=NEWEST, limit=9) == []
    assert (await periodic.progress("good")).status == "idle"


async def test_what_was_accepted_before_a_failure_is_not_accepted_again(periodic: PeriodicStage) -> None:
    batches = 2 * 500

    async def failing(checkpoint: Checkpoint) -> AsyncIterator[Yielded]:
        start = checkpoint.read(int, default=0)
        for number in range(start + 1, batches + 101):
            yield numbered(number), number
            if start == 0 and number == batches + 50:
                raise RuntimeError("halfway")

    source = a_source(failing)
    await periodic.register(source)
    periodic.clock.advance(15 * MINUTE)
    await periodic.perform(source)
    row = await periodic.progress()
    assert (row.last_value, row.accepted) == (batches, batches)

    periodic.clock.advance(MINUTE)
    await periodic.perform(source)

    row = await periodic.progress()
    assert (row.last_value, row.accepted, row.duplicates) == (batches + 100, batches + 100, 0)


async def test_invalid_intents_are_recorded_and_the_run_goes_on(periodic: PeriodicStage) -> None:
    async def mixed(_: Checkpoint) -> AsyncIterator[Yielded]:
        yield numbered(1), 1
        yield numbered(2, type="nobody_knows"), 2
        yield numbered(3, idempotency_key=""), 3
        yield numbered(4, payload={"text": object()}), 4
        yield numbered(5, payload={"text": 5}), 5
        yield numbered(6, payload={"text": "nul \x00"}), 6
        yield numbered(7), 7

    source = a_source(mixed)
    await periodic.register(source)
    periodic.clock.advance(15 * MINUTE)
    await periodic.perform(source)

    assert await periodic.keys() == ["number-1", "number-7"]
    row = await periodic.progress()
    assert (row.status, row.last_value, row.accepted, row.refused) == ("idle", 7, 2, 5)
    refused = await periodic.pool.fetch(
        "select source, producer, idempotency_key from refused_intents order by id"
    )
    assert {(each["source"], each["producer"]) for each in refused} == {("periodic", "feed")}
    assert [each["idempotency_key"] for each in refused] == [
        "number-2",
        None,
        "number-4",
        "number-5",
        "number-6",
    ]


async def test_what_the_database_refuses_is_recorded_and_the_rest_accepted(periodic: PeriodicStage) -> None:
    await periodic.pool.execute("""
        create function refuse() returns trigger language plpgsql
        as $$ begin raise exception 'an odd value' using errcode = 'data_exception'; end $$;
        create trigger odd before insert on notifications
        for each row when (new.idempotency_key = 'number-2') execute function refuse();
    """)
    source = source_of(Feed(3))
    await periodic.register(source)
    await periodic.request()
    await periodic.perform(source)

    assert await periodic.keys() == ["number-1", "number-3"]
    row = await periodic.progress()
    assert (row.status, row.last_value, row.accepted, row.refused) == ("idle", 3, 2, 1)
    assert "an odd value" in await periodic.pool.fetchval("select faults from refused_intents")


@pytest.mark.parametrize(
    ("yielded", "said"),
    [
        ("an intent", "yielded str; yield an Intent, or (Intent, checkpoint)"),
        ((numbered(1), object()), "yielded a checkpoint that is no JSON"),
    ],
)
async def test_what_cannot_be_yielded_fails_the_run_with_words(
    periodic: PeriodicStage, yielded: Any, said: str
) -> None:
    async def odd(_: Checkpoint) -> AsyncIterator[Any]:
        yield yielded

    source = a_source(odd)
    await periodic.register(source)
    periodic.clock.advance(15 * MINUTE)
    await periodic.perform(source)

    assert said in ((await periodic.progress()).last_error or "")
    assert await periodic.keys() == []


async def test_a_producer_that_gives_nothing_for_too_long_fails(periodic: PeriodicStage) -> None:
    async def stuck(_: Checkpoint) -> AsyncIterator[Yielded]:
        await asyncio.Event().wait()
        yield numbered(1)

    source = a_source(stuck, timeout_seconds=0.05)
    await periodic.register(source)
    periodic.clock.advance(15 * MINUTE)
    await periodic.perform(source)

    assert (await periodic.progress()).last_error == (
        "TimeoutError: yielded nothing for 0.05 s (timeout_seconds)"
    )
