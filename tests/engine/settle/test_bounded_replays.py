"""What a replay reads and writes is bounded by what it replays, not by what is there."""

from datetime import timedelta

import pytest

from tests.engine.settle.replaying import add_dead, batch, start
from tests.engine.stage import Stage
from tocsin.engine.inspect import dead_letters
from tocsin.store.dead_letters.reading import FIRST
from tocsin.wire.dead_letters import DeadLetterFilter, Matches


async def test_what_is_left_out_is_skipped_at_once_however_low_the_rate(stage: Stage) -> None:
    for _ in range(20):
        await add_dead(stage, expires_at=stage.clock() - timedelta(hours=1))
    phone = await stage.device("bob")
    await stage.pool.execute("update devices set retired_at = now(), retired_reason = 'gone'")
    for _ in range(3):
        await add_dead(stage, "bob", state="gone", device_id=phone)
    for _ in range(2):
        await add_dead(stage)
        await add_dead(stage, cancelled_at=stage.clock())
    replay_id = await start(stage, rate=1)

    first, second, third = [await batch(stage, replay_id) for _ in range(3)]

    assert (first.replayed, first.left_out) == (1, {"expired": 20, "no_device": 3, "cancelled": 1})
    assert (second.replayed, second.state) == (2, "running")
    assert (third.replayed, third.left_out["cancelled"], third.state) == (2, 2, "finished")


async def test_one_delivery_is_counted_and_replayed_without_looking_at_others(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_letters, "STRETCH", 2)
    monkeypatch.setattr(dead_letters, "MOST_GROUPED", 2)
    monkeypatch.setattr(dead_letters, "COUNT_SECONDS", 0.0)
    monkeypatch.setattr("tocsin.engine.settle.replays.EXAMINED", 2)
    ids = [await add_dead(stage) for _ in range(5)]

    all_of_them = await dead_letters.count(stage.pool, DeadLetterFilter())
    one = await batch(stage, await start(stage, delivery_id=ids[3]))

    listed = await dead_letters.list_groups(stage.pool, DeadLetterFilter(delivery_id=ids[0]))
    exported = await dead_letters.page(stage.pool, DeadLetterFilter(delivery_id=ids[4]), FIRST, 2)

    assert all_of_them == Matches(2, or_more=True)
    assert (one.matched, one.replayed, one.state) == (Matches(1, or_more=False), 1, "finished")
    assert [group.example.delivery_id for group in listed.groups] == [ids[0]]
    assert ([each.delivery_id for each in exported.dead_letters], exported.next) == ([ids[4]], None)
