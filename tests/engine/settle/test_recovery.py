"""A fault of the provider does not bury a message: after its last attempt it waits for recovery."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
import structlog

from tests.engine.stage import Stage, StubProvider
from tests.waiting import found
from tocsin.domain.delivery.outcome import Outcome, Retry
from tocsin.domain.ids import new_lease_id
from tocsin.domain.timing.quiet_hours import QuietHoursSettings
from tocsin.engine.health.settings import HealthSettings

SECOND = timedelta(seconds=1)
EVERY = timedelta(minutes=6)
"""A little longer than the policy, whose wait is varied."""
DOWN = Retry("UNAVAILABLE")


@pytest.fixture
def provider() -> StubProvider:
    return StubProvider()


async def row_of(stage: Stage, notification_id: UUID, attempts: int) -> dict[str, Any]:
    """Wait until the delivery of a notification has spent its attempts and waits, and give it."""

    async def look() -> dict[str, Any] | None:
        (row,) = await stage.deliveries(notification_id)
        return row if row["lease"] is None and row["attempts"] == attempts else None

    return await found(look)


async def failed_twice(stage: Stage, provider: StubProvider, *answers: Outcome, **changes: Any) -> UUID:
    """Accept one whose two attempts meet a provider that is down; further answers follow."""
    provider.script("ada", DOWN, DOWN, *answers)
    notification_id = await stage.accept("ada", **{"type": "lasting", "payload": {}} | changes)
    await row_of(stage, notification_id, 1)
    stage.clock.advance(6 * SECOND)
    await row_of(stage, notification_id, 2)
    return notification_id


async def test_a_message_outlives_an_outage_longer_than_its_attempts(
    stage: Stage, provider: StubProvider
) -> None:
    await stage.device("ada")
    async with stage.working(provider):
        notification_id = await failed_twice(stage, provider, DOWN)
        waiting = await row_of(stage, notification_id, 2)
        assert (waiting["state"], waiting["recovering"]) == ("retrying", True)
        stage.clock.advance(EVERY)
        await row_of(stage, notification_id, 3)
        stage.clock.advance(EVERY)
        (row,) = await stage.settled(notification_id, "sent")

    assert (row["attempts"], row["held_by"]) == (4, None)


async def test_recovery_ends_and_the_dead_letter_is_an_error_in_the_log(
    stage: Stage, provider: StubProvider
) -> None:
    await stage.device("ada")
    with structlog.testing.capture_logs() as lines:
        # A circuit breaker that opens probes with the message, which spends no attempt.
        async with stage.working(provider, health=HealthSettings(failures_in_a_row=100)):
            notification_id = await failed_twice(stage, provider, DOWN, DOWN, DOWN)
            for attempts in (3, 4, 5):
                stage.clock.advance(EVERY)
                row = await row_of(stage, notification_id, attempts)

    assert (row["state"], row["recovering"], row["last_error_code"]) == ("dead", False, "UNAVAILABLE")
    errors = [line for line in lines if line["log_level"] == "error"]
    assert [(line["event"], line["code"], line["attempts"]) for line in errors] == [
        ("delivery settled", "UNAVAILABLE", 5)
    ]


@pytest.mark.parametrize(
    "last", [Retry("busy", speaks_against="target"), RuntimeError("a bug of the provider's code")]
)
async def test_a_fault_of_its_own_in_the_last_attempt_is_the_end(
    stage: Stage, provider: StubProvider, last: Outcome | Exception
) -> None:
    await stage.device("ada")
    provider.script("ada", DOWN, last)
    async with stage.working(provider):
        notification_id = await stage.accept("ada", type="lasting", payload={})
        await row_of(stage, notification_id, 1)
        stage.clock.advance(6 * SECOND)
        await stage.settled(notification_id, "dead")


async def test_recovery_respects_quiet_hours(stage: Stage, provider: StubProvider) -> None:
    stage.quiet = QuietHoursSettings(default_timezone="UTC")
    stage.clock.move_to(datetime(2026, 1, 15, 21, 57, tzinfo=UTC))
    await stage.device("ada", timezone="Europe/London")
    async with stage.working(provider):
        notification_id = await failed_twice(stage, provider)
        stage.clock.advance(EVERY)

        async def look() -> dict[str, Any] | None:
            (row,) = await stage.deliveries(notification_id)
            return row if row["due_at"] > stage.clock() + EVERY else None

        row = await found(look)
        assert (row["recovering"], row["attempts"], len(provider.arrived)) == (True, 2, 2)
        stage.clock.move_to(row["due_at"] + SECOND)
        await stage.settled(notification_id, "sent")

    assert row["due_at"].hour == 9


async def test_what_waits_for_recovery_expires_when_its_time_to_live_ends(
    stage: Stage, provider: StubProvider
) -> None:
    await stage.device("ada")
    async with stage.working(provider):
        notification_id = await failed_twice(stage, provider, ttl_seconds=60)
        (row,) = await stage.deliveries(notification_id)
        assert row["due_at"] == await stage.pool.fetchval("select expires_at from notifications")
        stage.clock.move_to(row["due_at"] + SECOND)
        await stage.settled(notification_id, "expired")

    assert len(provider.arrived) == 2


async def test_what_waits_for_recovery_holds_up_no_later_one_of_its_group(
    stage: Stage, provider: StubProvider
) -> None:
    await stage.device("ada")
    provider.script("ada", DOWN, DOWN)
    async with stage.working(provider):
        first = await stage.accept("ada", type="lasting_step", payload={}, idempotency_key="1")
        second = await stage.accept("ada", type="lasting_step", payload={}, idempotency_key="2")
        await stage.settled(second, "sent")
        await row_of(stage, first, 2)
        stage.clock.advance(EVERY)
        await stage.settled(first, "sent")


async def test_a_worker_that_dies_with_what_recovers_does_not_bury_it(
    stage: Stage, provider: StubProvider
) -> None:
    await stage.device("ada")
    async with stage.working(provider):
        notification_id = await failed_twice(stage, provider)
    await stage.pool.execute(
        "update deliveries set lease = $1, leased_until = $2, alone = true, due_at = $2",
        new_lease_id(),
        stage.clock() - SECOND,
    )
    async with stage.working(provider):
        await stage.settled(notification_id, "sent")
