from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial

import asyncpg
import pytest
import structlog

from tests.engine.stage import Stage, StubProvider, an_intent
from tests.engine.worker.alerts import accept_many, alert, all_in, push_in
from tests.rows import device
from tests.waiting import found, until
from tocsin.domain.delivery.message import Message
from tocsin.domain.delivery.outcome import Defer, Gone, Outcome, Rejected
from tocsin.store.deliveries import claim as claims


class Forgetful(StubProvider):
    """Says nothing of what it was handed."""

    async def send(self, batch: Sequence[Message], *, now: datetime) -> Sequence[Outcome]:
        await super().send(batch, now=now)
        return []


async def test_a_worker_goes_on_once_a_slow_database_has_caught_up(stage: Stage) -> None:
    provider = StubProvider(concurrency=6)
    await accept_many(stage, 80)
    async with stage.pool.acquire() as slow:
        blocking = slow.transaction()
        await blocking.start()
        # Claims only read it; settlements store what was decided there and have to wait.
        await slow.execute("lock table decision_sets in exclusive mode")
        async with stage.working(provider):
            await until(lambda: len(provider.arrived) > 30)
            await blocking.commit()
            await all_in(stage, sent=80)


async def test_many_people_without_devices_do_not_stop_a_worker(stage: Stage) -> None:
    intents = [an_intent(f"user{number}", idempotency_key=f"k{number}") for number in range(300)]
    await stage.acceptor.accept("shop", intents)
    async with stage.working(StubProvider(concurrency=1)):
        await all_in(stage, skipped=300)


async def test_a_provider_that_forgets_an_outcome_costs_an_attempt_and_no_capacity(stage: Stage) -> None:
    await stage.device("ada")
    async with stage.working(Forgetful(concurrency=1)):
        first = await alert(stage, idempotency_key="1")
        row = await push_in(stage, first, "retrying")
        await push_in(stage, await alert(stage, idempotency_key="2"), "retrying")

    assert (row["attempts"], row["last_error_code"]) == (1, "provider_failed")


async def test_a_device_that_registered_again_while_the_answer_was_under_way_stays(stage: Stage) -> None:
    provider = StubProvider()
    device_id = await stage.device("ada")
    provider.script("ada", Gone("UNREGISTERED"))
    provider.hold()
    async with stage.working(provider):
        notification_id = await stage.accept("ada")
        await until(lambda: len(provider.arrived) == 1)
        await stage.pool.execute("update devices set last_seen_at = $1", stage.clock())
        provider.let_go.set()
        await stage.settled(notification_id, "sent")

    assert len(provider.arrived) == 2
    assert (await device(stage.pool, device_id))["retired_at"] is None


async def test_a_device_of_another_sender_raises_an_alarm(stage: Stage) -> None:
    provider = StubProvider()
    await stage.device("ada")
    provider.script("ada", Rejected("SENDER_ID_MISMATCH", quarantine=True))
    with structlog.testing.capture_logs() as lines:
        async with stage.working(provider):
            await stage.settled(await stage.accept("ada"), "rejected")

    assert [line["code"] for line in lines if line["log_level"] == "error"] == ["SENDER_ID_MISMATCH"]


async def test_a_claim_that_meets_a_closing_connection_is_tried_again(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures = iter([asyncpg.InternalClientError("another operation is in progress")])

    async def failing_once(*arguments: object, **options: object) -> object:
        for failure in failures:
            raise failure
        return await claims.claim(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr("tocsin.engine.dispatch.lane.claim", failing_once)
    await stage.device("ada")
    async with stage.working(StubProvider()):
        await stage.settled(await stage.accept("ada"), "sent")


async def test_what_is_deferred_for_its_device_alone_comes_to_an_end(stage: Stage) -> None:
    provider = StubProvider()
    await stage.device("ada")
    provider.script("ada", *[Defer("forbidden", timedelta(minutes=5), pauses=False, alarm=True)] * 200)
    async with stage.working(provider):
        accepted = await stage.accept("ada", type="plain", payload={})
        tried = 0
        while (await stage.deliveries(accepted))[0]["state"] != "dead":
            tried += 1
            assert tried < 60
            await until(lambda: len(provider.arrived) >= tried)  # noqa: B023 - awaited before the next round
            await found(partial(released, stage, tried))
            stage.clock.advance(timedelta(hours=1))

    assert tried > 24
    assert {outcome for outcome, _ in await stage.attempts()} == {"defer", "retry"}


async def test_what_was_scheduled_long_ago_is_not_ended_by_its_first_deferral(stage: Stage) -> None:
    provider = StubProvider()
    await stage.device("ada")
    provider.script("ada", Defer("forbidden", timedelta(minutes=5), pauses=False))
    accepted = await stage.accept("ada", type="plain", payload={}, send_at=stage.clock() + timedelta(days=10))
    stage.clock.advance(timedelta(days=10, minutes=1))
    async with stage.working(provider):
        await found(partial(released, stage, 1))
        (row,) = await stage.deliveries(accepted)
        stage.clock.advance(timedelta(minutes=6))
        await stage.settled(accepted, "sent")

    assert (row["state"], row["attempts"]) == ("retrying", 0)
    assert await stage.attempts() == [("defer", "forbidden")]


async def released(stage: Stage, attempts: int) -> bool:
    """Return whether so many attempts of the only delivery are settled."""
    statement = "select count(*) >= $1 and bool_and(lease is null) from attempts, deliveries"
    return bool(await stage.pool.fetchval(statement, attempts))
