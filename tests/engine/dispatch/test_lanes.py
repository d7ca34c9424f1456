from datetime import timedelta

import pytest

from tests.engine.stage import Stage, StubProvider, a_provider
from tests.rows import NOW, add_held, add_notification
from tests.waiting import found, until
from tocsin.engine.dispatch.concurrency import FIRST
from tocsin.engine.dispatch.settings import DispatchSettings
from tocsin.engine.health.settings import rates_type
from tocsin.store import toggles

QUICK = DispatchSettings(poll_seconds=0.02, lease_seconds=30.0, stop_seconds=10.0)


async def test_a_slow_provider_does_not_hold_up_another(stage: Stage) -> None:
    slow, quick = a_provider("fcm", concurrency=4), a_provider("apns", concurrency=4)
    slow.hold()
    async with stage.working(slow, quick):
        for number in range(120):
            await stage.device(f"user{number}", provider="apns" if number % 3 == 2 else "fcm")
        for number in range(120):
            await stage.accept(f"user{number}", idempotency_key=f"{number}")

        await until(lambda: len(quick.arrived) == 40)
        assert len(slow.arrived) == 4
        slow.let_go.set()
        await until(lambda: len(slow.arrived) == 80)

    assert await stage.states() == {"sent": 120}
    assert slow.most_at_once == 4
    assert set(slow.counts().values()) == {1}


async def test_a_push_starts_in_the_lane_of_its_devices(stage: Stage) -> None:
    await stage.device("ada", provider="apns")
    await stage.device("bob", token="bob1")
    await stage.device("bob", token="bob2")
    await stage.device("eve", token="eve1")
    await stage.device("eve", token="eve2", provider="apns")
    await stage.device("gus", provider="sms")

    rows = await stage.deliveries(await stage.accept("ada", "bob", "eve", "gus", "nobody"))

    assert {row["user_id"]: row["lane"] for row in rows} == {
        "ada": "apns",
        "bob": "fcm",
        "eve": "fanout",
        "gus": "fanout",
        "nobody": "fanout",
    }


async def test_the_lane_is_corrected_by_the_devices_of_the_moment(stage: Stage) -> None:
    phone = await stage.device("ada", token="phone")
    notification_id = await stage.accept("ada")
    await stage.pool.execute(
        "update devices set retired_at = now(), retired_reason = 'replaced' where id = $1", phone
    )
    await stage.device("ada", token="iphone", provider="apns")
    fcm, apns = a_provider("fcm"), a_provider("apns")
    async with stage.working(fcm, apns):
        (row,) = await stage.settled(notification_id, "sent")

    assert not fcm.arrived
    assert (row["lane"], row["attempts"]) == ("apns", 1)


async def test_a_person_with_devices_of_several_providers_gets_a_row_in_each_lane(stage: Stage) -> None:
    await stage.device("ada", token="phone")
    await stage.device("ada", token="tablet")
    await stage.device("ada", token="iphone", provider="apns")
    fcm, apns = a_provider("fcm"), a_provider("apns")
    async with stage.working(fcm, apns):
        notification_id = await stage.accept("ada")

        async def all_sent() -> bool:
            rows = await stage.deliveries(notification_id)
            return [row["state"] for row in rows] == ["sent"] * 3

        await found(all_sent)

    rows = await stage.deliveries(notification_id)
    assert sorted((row["lane"], row["provider"]) for row in rows) == [
        ("apns", "apns"),
        ("fcm", "fcm"),
        ("fcm", "fcm"),
    ]
    assert set(fcm.counts().values()) == set(apns.counts().values()) == {1}


async def test_what_waits_in_a_lane_that_is_gone_is_fanned_out_again(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tocsin.engine.settle.expiry.EVERY_SECONDS", 0.05)
    await stage.device("ada", token="old", provider="expo")
    await stage.device("bob", token="bob", provider="expo")
    both, one = await stage.accept("ada"), await stage.accept("bob", idempotency_key="bob")
    await stage.device("ada", token="new")
    fcm = a_provider("fcm")
    async with stage.working(fcm):
        (sent,) = await stage.settled(both, "sent")
        (skipped,) = await stage.settled(one, "skipped")

    assert sent["lane"] == "fcm"
    assert skipped["reason"] == "provider_unavailable"


async def test_what_waits_for_a_provider_that_is_off_expires_in_time(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tocsin.engine.settle.expiry.EVERY_SECONDS", 0.05)
    await stage.device("ada")
    await switch_off(stage, "provider:fcm")
    async with stage.working(StubProvider()):
        lasting = await stage.accept("ada", idempotency_key="1")
        brief = await stage.accept("ada", idempotency_key="2", ttl_seconds=60)
        stage.clock.advance(timedelta(seconds=61))
        (expired,) = await stage.settled(brief, "expired")
        (waiting,) = await stage.deliveries(lasting)

    assert expired["settled_at"] is not None
    assert waiting["state"] == "pending"


async def test_what_a_toggle_holds_expires_in_time(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tocsin.engine.settle.expiry.EVERY_SECONDS", 0.05)
    await stage.device("ada")
    await switch_off(stage, "type:fleeting")
    async with stage.working(StubProvider()):
        held = await stage.accept("ada", type="fleeting", payload={})

        async def is_held() -> bool:
            (row,) = await stage.deliveries(held)
            return bool(row["held_by"])

        await found(is_held)
        stage.clock.advance(timedelta(hours=2))
        await stage.settled(held, "expired")


async def test_a_backlog_that_expires_together_does_so_without_pauses(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tocsin.engine.settle.expiry.EVERY_SECONDS", 3_600.0)
    monkeypatch.setattr("tocsin.engine.settle.expiry.AT_ONCE", 2)
    notification_id = await add_notification(stage.pool, expires_at=NOW)
    for _ in range(9):
        await add_held(stage.pool, "digest", notification_id=notification_id)
    async with stage.working(StubProvider()):
        await stage.settled(notification_id, "expired")


async def switch_off(stage: Stage, name: str) -> None:
    async with stage.pool.acquire() as connection:
        await toggles.change(connection, name, enabled=False, reason=None, by="ada", now=stage.clock())


async def test_a_worker_serves_the_lanes_it_is_given(stage: Stage) -> None:
    await stage.device("ada")
    await stage.device("eve", provider="apns")
    fcm, apns = a_provider("fcm"), a_provider("apns")
    async with stage.working(fcm, apns, lanes={"apns"}):
        left, taken = await stage.accept("ada"), await stage.accept("eve", idempotency_key="eve")
        await stage.settled(taken, "sent")

    assert [row["state"] for row in await stage.deliveries(left)] == ["pending"]
    assert not fcm.arrived


async def test_a_fan_out_keeps_to_what_the_provider_takes_at_once(stage: Stage) -> None:
    provider = StubProvider(concurrency=3)
    for number in range(12):
        await stage.device("ada", token=f"phone{number}")
    async with stage.working(provider):
        sent = await stage.settled(await stage.accept("ada"), "sent")

    assert len(sent) == 12
    assert provider.most_at_once <= 3


async def test_what_waits_too_long_under_its_lease_is_handed_on_untried(stage: Stage) -> None:
    provider = StubProvider(concurrency=1)
    provider.hold()
    for number in range(2):
        await stage.device("ada", token=f"phone{number}")
    async with stage.working(provider):
        notification_id = await stage.accept("ada")
        await until(lambda: len(provider.arrived) == 1)
        stage.clock.advance(timedelta(seconds=16))
        provider.let_go.set()
        sent = await stage.settled(notification_id, "sent")

    assert [row["attempts"] for row in sent] == [1, 1]
    assert set(provider.counts().values()) == {1}


async def test_a_worker_that_stops_hands_on_what_it_has_not_begun(stage: Stage) -> None:
    first, second = StubProvider(concurrency=1), StubProvider(concurrency=5)
    first.hold()
    for number in range(2):
        await stage.device("ada", token=f"phone{number}")
    async with stage.working(first) as stop:
        notification_id = await stage.accept("ada")
        await until(lambda: len(first.arrived) == 1)
        stop.set()

        async def handed_on() -> bool:
            free = await stage.pool.fetchval("select count(*) from deliveries where lease is null")
            return bool(free == 1)

        await found(handed_on)
        first.let_go.set()
    async with stage.working(second):
        await stage.settled(notification_id, "sent")

    assert len(first.arrived) == len(second.arrived) == 1


async def test_batches_are_as_large_as_the_provider_takes(stage: Stage) -> None:
    provider = a_provider("expo", concurrency=200, batch=50)
    sizes: list[int] = []
    send = provider.send

    async def noting(batch, *, now):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
        sizes.append(len(batch))
        return await send(batch, now=now)

    provider.send = noting  # type: ignore[method-assign]
    for number in range(120):
        await stage.device("ada", token=f"phone{number}", provider="expo")
    async with stage.working(provider):
        await stage.settled(await stage.accept("ada"), "sent")

    assert sorted(sizes) == [20, 50, 50]


async def test_a_low_rate_is_slow_but_never_stands_still(stage: Stage) -> None:
    """More can wait in a lane than its rate lets leave under one lease."""
    provider = StubProvider(concurrency=100)
    for number in range(60):
        await stage.device(f"user{number}")
        await stage.accept(f"user{number}", idempotency_key=f"{number}")
    hasty = DispatchSettings(poll_seconds=0.02, lease_seconds=2.0, stop_seconds=10.0)
    async with stage.working(provider, settings=hasty, rates=rates_type({"fcm": 20})(ramp_seconds=0)):
        await until(lambda: len(provider.arrived) == 60)

    assert set(provider.counts().values()) == {1}
    assert await stage.pool.fetchval("select max(attempts) from deliveries") == 1


async def test_a_busy_provider_does_not_hold_up_another_though_it_moves(stage: Stage) -> None:
    busy, other = StubProvider(concurrency=4, seconds=0.04), a_provider("apns")
    for number in range(200):
        await stage.device(f"user{number}")
    await stage.device("ada", provider="apns")
    for number in range(200):
        await stage.accept(f"user{number}", idempotency_key=f"{number}")
    async with stage.working(busy, other):
        await until(lambda: len(busy.arrived) >= 20)
        await stage.accept("ada")
        await until(lambda: len(other.arrived) == 1)
        arrived_meanwhile = len(busy.arrived)
        await until(lambda: len(busy.arrived) == 200)

    assert arrived_meanwhile < 150
    assert set(busy.counts().values()) == {1}


async def test_more_is_in_flight_at_once_while_the_provider_keeps_up(stage: Stage) -> None:
    provider = StubProvider(concurrency=1_000, seconds=0.04)
    await stage.device("ada")
    for number in range(200):
        await stage.accept("ada", idempotency_key=f"{number}")
    async with stage.working(provider):
        await until(lambda: len(provider.arrived) > 0)
        assert provider.most_at_once <= FIRST
        await until(lambda: len(provider.arrived) == 200)

    assert provider.most_at_once >= 3 * FIRST


async def test_what_waits_for_its_slot_heeds_a_switch(stage: Stage) -> None:
    provider = StubProvider(concurrency=100)
    for number in range(20):
        await stage.device(f"user{number}")
        await stage.accept(f"user{number}", idempotency_key=f"{number}")
    async with stage.working(provider, rates=rates_type({"fcm": 5})(ramp_seconds=0)):
        await until(lambda: len(provider.arrived) == 1)
        async with stage.pool.acquire() as connection:
            await toggles.change(
                connection, "provider:fcm", enabled=False, reason=None, by="ada", now=stage.clock()
            )

        async def released() -> bool:
            waiting = await stage.pool.fetchval(
                "select count(*) from deliveries where lease is null and state <> 'sent'"
            )
            return bool(waiting + len(provider.arrived) == 20)

        await found(released)
        assert len(provider.arrived) < 15
