"""Where one provider takes all pushes, they start in its lane, whatever devices a person has."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta

import pytest
from structlog.testing import capture_logs

from tests.engine.health.circuits import in_state
from tests.engine.stage import Stage, StubProvider, a_provider
from tocsin.engine.dispatch.attempt import Attempt
from tocsin.engine.dispatch.lane import Lane

ONLY = {"push": ("fcm",)}


async def open_circuit(stage: Stage) -> None:
    """Open the circuit breaker of the provider, with a probe due."""
    await stage.pool.execute(
        "insert into circuits (name, provider, state, code, changed_at, retry_at)"
        " values ('fcm', 'fcm', 'open', 'UNAVAILABLE', $1, $1)",
        stage.clock() - timedelta(minutes=1),
    )


async def test_its_lane_alone_skips_who_has_no_device(stage: Stage) -> None:
    stage.acceptor = stage.an_acceptor(ONLY)
    provider = StubProvider()
    await stage.device("ada")
    notification_id = await stage.accept("bob", "ada", type="plain", payload={})
    async with stage.working(provider, lanes=["fcm"]):
        await stage.settled(notification_id, "sent", "skipped")

    by_user = {each["user_id"]: each for each in await stage.deliveries(notification_id)}
    assert (by_user["bob"]["state"], by_user["bob"]["reason"]) == ("skipped", "no_device")
    assert by_user["ada"]["state"] == "sent"


async def test_who_has_no_device_does_not_use_up_the_probe_of_a_circuit_breaker(stage: Stage) -> None:
    stage.acceptor = stage.an_acceptor(ONLY)
    await open_circuit(stage)
    people = [f"user{number}" for number in range(20)]
    without = await stage.accept(*people, type="plain", payload={})
    await stage.device("ada")
    last = await stage.accept("ada", type="plain", payload={}, idempotency_key="last")
    with capture_logs() as logs:
        async with stage.working(StubProvider()):
            await stage.settled(last, "sent")
            await in_state(stage, "fcm", "closed")
            await stage.settled(without, "skipped")

    assert [each["event"] for each in logs].count("circuit probed") == 1


async def test_the_permission_to_probe_is_returned_if_nothing_is_sent(stage: Stage) -> None:
    stage.acceptor = stage.an_acceptor(ONLY)
    await open_circuit(stage)
    without = await stage.accept("bob", "cem", type="plain", payload={})
    async with stage.working(StubProvider()):
        await stage.settled(without, "skipped")
        await in_state(stage, "fcm", "open")
        await stage.device("ada")
        await stage.settled(await stage.accept("ada", type="plain", payload={}, idempotency_key="2"), "sent")


async def test_the_permission_to_probe_is_returned_after_a_fault(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.acceptor = stage.an_acceptor(ONLY)
    await open_circuit(stage)
    await stage.device("ada")
    dispatch, dispatched = Lane._dispatch, 0

    async def fail_once(lane: Lane, claimed: Sequence[Attempt]) -> list[Attempt]:
        nonlocal dispatched
        dispatched += 1
        if dispatched == 1:
            raise ConnectionResetError
        return await dispatch(lane, claimed)

    monkeypatch.setattr(Lane, "_dispatch", fail_once)
    await stage.accept("ada", type="plain", payload={})
    second = await stage.accept("ada", type="plain", payload={}, idempotency_key="second")
    async with stage.working(StubProvider()):
        await stage.settled(second, "sent")


async def test_the_permission_to_probe_is_returned_when_the_worker_stops(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.acceptor = stage.an_acceptor(ONLY)
    await open_circuit(stage)
    dispatch, began = Lane._dispatch, asyncio.Event()

    async def stop_first(lane: Lane, claimed: Sequence[Attempt]) -> list[Attempt]:
        await in_state(stage, "fcm", "half_open")
        began.set()
        lane.stop()
        return await dispatch(lane, claimed)

    monkeypatch.setattr(Lane, "_dispatch", stop_first)
    await stage.device("ada")
    notification_id = await stage.accept("ada", "bob", type="plain", payload={})
    provider = StubProvider()
    async with stage.working(provider):
        await began.wait()
        await in_state(stage, "fcm", "open")

    assert not provider.arrived
    assert {each["state"] for each in await stage.deliveries(notification_id)} == {"pending"}


async def test_a_device_of_a_provider_that_came_later_gets_it(stage: Stage) -> None:
    stage.acceptor = stage.an_acceptor(ONLY)
    notification_id = await stage.accept("ada", type="plain", payload={})
    await stage.device("ada", provider="apns")
    apns = a_provider("apns")
    async with stage.working(StubProvider(), apns):
        await stage.settled(notification_id, "sent")

    assert len(apns.arrived) == 1
