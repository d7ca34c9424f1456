"""What each outcome of an attempt leads to."""

import pytest

from tests.engine.stage import BatchProvider, Stage, StubProvider
from tests.engine.worker.alerts import MINUTE, SECOND, accept_many, alert, all_in, push_in, recorded
from tests.rows import device
from tocsin.domain.delivery.outcome import Defer, Gone, Outcome, Rejected, Retry, Sent


async def test_a_passing_fault_is_tried_again_when_its_time_has_come(
    stage: Stage, provider: StubProvider
) -> None:
    await stage.device("ada")
    provider.script("ada", Retry("UNAVAILABLE", "busy"))
    async with stage.working(provider):
        notification_id = await alert(stage)
        waiting = await push_in(stage, notification_id, "retrying")
        assert waiting["due_at"] > stage.clock() + 5 * SECOND
        assert len(provider.arrived) == 1
        stage.clock.advance(11 * SECOND)
        sent = await push_in(stage, notification_id, "sent")

    assert (waiting["attempts"], sent["attempts"]) == (1, 2)
    assert await stage.attempts() == [("retry", "UNAVAILABLE")]


async def test_a_delivery_is_dead_when_its_attempts_are_used_up(stage: Stage, provider: StubProvider) -> None:
    device_id = await stage.device("ada")
    provider.script("ada", *[Retry("UNAVAILABLE")] * 10)
    async with stage.working(provider):
        notification_id = await alert(stage)
        for attempt in (1, 2):
            await recorded(stage, attempt)
            await push_in(stage, notification_id, "retrying")
            stage.clock.advance(11 * SECOND)
        dead = await push_in(stage, notification_id, "dead")

    assert (dead["attempts"], dead["last_error_code"]) == (3, "UNAVAILABLE")
    assert dead["settled_at"] is not None
    assert len(provider.arrived) == 3
    assert (await device(stage.pool, device_id))["retired_at"] is None


async def test_a_deferral_spends_no_attempt_however_often_it_comes(
    stage: Stage, provider: StubProvider
) -> None:
    await stage.device("ada")
    provider.script("ada", *[Defer("QUOTA_EXCEEDED", MINUTE)] * 3)
    async with stage.working(provider):
        notification_id = await stage.accept("ada")
        for times in (1, 2, 3):
            await recorded(stage, times)
            (waiting,) = await stage.settled(notification_id, "retrying")
            assert (waiting["attempts"], waiting["last_error_code"]) == (0, "QUOTA_EXCEEDED")
            stage.clock.advance(67 * SECOND)
        (sent,) = await stage.settled(notification_id, "sent")

    assert sent["attempts"] == 1
    assert await stage.attempts() == [("defer", "QUOTA_EXCEEDED")] * 3


async def test_nothing_leaves_while_the_provider_rests(stage: Stage, provider: StubProvider) -> None:
    await stage.device("ada")
    await stage.device("bob")
    provider.script("ada", Defer("UNAUTHENTICATED", 5 * MINUTE, alarm=True))
    async with stage.working(provider):
        first = await stage.accept("ada", idempotency_key="1")
        await stage.settled(first, "retrying")
        second = await stage.accept("bob", idempotency_key="2")
        stage.clock.advance(4 * MINUTE)
        (row,) = await stage.deliveries(second)
        assert (row["state"], row["attempts"]) == ("pending", 0)
        assert len(provider.arrived) == 1
        stage.clock.advance(2 * MINUTE)
        await stage.settled(second, "sent")


async def test_the_quota_of_one_device_holds_back_that_device_alone(
    stage: Stage, provider: StubProvider
) -> None:
    await stage.device("ada")
    await stage.device("bob")
    provider.script("ada", Defer("QUOTA_EXCEEDED", MINUTE, pauses=False))
    async with stage.working(provider):
        held = await stage.accept("ada", idempotency_key="1")
        await stage.settled(held, "retrying")
        await stage.settled(await stage.accept("bob", idempotency_key="2"), "sent")


@pytest.mark.parametrize(
    ("outcome", "state", "retired"),
    [
        (Gone("UNREGISTERED", "gone"), "gone", "gone: UNREGISTERED"),
        (Rejected("INVALID_ARGUMENT", "bad"), "rejected", None),
        (Rejected("SENDER_ID_MISMATCH", quarantine=True), "rejected", "quarantined: SENDER_ID_MISMATCH"),
    ],
)
async def test_a_final_answer_settles_and_retires_only_what_it_must(
    stage: Stage, provider: StubProvider, outcome: Outcome, state: str, retired: str | None
) -> None:
    device_id = await stage.device("ada")
    provider.script("ada", outcome)
    async with stage.working(provider):
        notification_id = await stage.accept("ada")
        (row,) = await stage.settled(notification_id, state)

    assert row["attempts"] == 1
    assert (await device(stage.pool, device_id))["retired_reason"] == retired
    assert len(await stage.attempts()) == 1


@pytest.mark.parametrize(
    "loss",
    ["user_id = 'bob'", "push_enabled = false", "retired_at = now(), retired_reason = 'unregistered'"],
)
async def test_a_device_lost_between_attempts_gets_nothing(
    stage: Stage, provider: StubProvider, loss: str
) -> None:
    await stage.device("ada")
    provider.script("ada", Retry("UNAVAILABLE"))
    async with stage.working(provider):
        notification_id = await alert(stage)
        await push_in(stage, notification_id, "retrying")
        await stage.pool.execute(f"update devices set {loss}")  # noqa: S608 - one of the three above
        stage.clock.advance(11 * SECOND)
        row = await push_in(stage, notification_id, "skipped")

    assert (row["reason"], row["last_error_code"]) == ("device_lost", "UNAVAILABLE")
    assert len(provider.arrived) == 1


async def test_a_provider_that_raises_costs_one_attempt_and_not_the_worker(
    stage: Stage, provider: StubProvider
) -> None:
    await stage.device("ada")
    await stage.device("bob")
    provider.script("ada", RuntimeError("a mistake with a s3cret"))
    async with stage.working(provider):
        notification_id = await alert(stage)
        row = await push_in(stage, notification_id, "retrying")
        await stage.settled(await stage.accept("bob", idempotency_key="2"), "sent")
        stage.clock.advance(11 * SECOND)
        await push_in(stage, notification_id, "sent")

    assert (row["attempts"], row["last_error_code"], row["last_error"]) == (
        1,
        "provider_failed",
        "RuntimeError",
    )


async def test_words_of_a_provider_that_cannot_be_stored_hold_up_nobody(
    stage: Stage, provider: StubProvider
) -> None:
    await accept_many(stage, 3)
    provider.script("user0", Rejected("CODE\x00" * 50, "detail\x00" * 200))
    provider.script("user1", Sent("name\x00"))
    async with stage.working(provider):
        await all_in(stage, sent=2, rejected=1)


async def test_each_outcome_of_a_batch_settles_its_own_delivery(stage: Stage) -> None:
    provider = BatchProvider(concurrency=8)
    await accept_many(stage, 8)
    provider.script("user1", Gone("UNREGISTERED"))
    provider.script("user6", Rejected("INVALID_ARGUMENT"))
    async with stage.working(provider):
        await all_in(stage, sent=6, gone=1, rejected=1)

    found = dict(map(tuple, await stage.pool.fetch("select user_id, state from deliveries")))
    assert (found["user1"], found["user6"]) == ("gone", "rejected")
    messages = await stage.pool.fetch("select id, provider_message_id from deliveries where state = 'sent'")
    assert all(row["provider_message_id"] == f"message-{row['id']}" for row in messages)
