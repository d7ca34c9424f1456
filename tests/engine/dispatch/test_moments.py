from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID

import msgspec
import pytest

from tests.engine.stage import Stage, StubProvider
from tests.waiting import found, until
from tocsin.domain.decide import Step
from tocsin.domain.delivery.outcome import Retry
from tocsin.domain.timing.quiet_hours import QuietHoursSettings
from tocsin.engine.inspect.show import show

EVENING = datetime(2026, 1, 15, 20, 0, tzinfo=UTC)
NIGHT = datetime(2026, 1, 15, 23, 30, tzinfo=UTC)
MORNING = datetime(2026, 1, 16, 9, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)
HOUR = timedelta(hours=1)


@pytest.fixture
def provider() -> StubProvider:
    return StubProvider()


@pytest.fixture(autouse=True)
def _at_night(stage: Stage) -> None:
    stage.quiet = QuietHoursSettings(default_timezone="UTC")
    stage.clock.move_to(NIGHT)


async def news(stage: Stage, *users: str, kind: str = "plain", **changes: Any) -> UUID:
    return await stage.accept(*users, type=kind, payload={}, **changes)


async def live_in(stage: Stage, user_id: str, zone: str) -> None:
    await stage.pool.execute(
        "insert into users (user_id, timezone, updated_at) values ($1, $2, $3)", user_id, zone, stage.clock()
    )


async def refuse(stage: Stage, user_id: str, category: str) -> None:
    await stage.pool.execute(
        "insert into preferences (user_id, choices, updated_at) values ($1, $2, $3)",
        user_id,
        msgspec.json.encode({category: {"push": False}}).decode(),
        stage.clock(),
    )


async def waiting(stage: Stage, notification_id: UUID) -> dict[str, Any]:
    """Wait until the delivery of a notification waits for a time ahead, and give it."""

    async def look() -> dict[str, Any] | None:
        (row,) = await stage.deliveries(notification_id)
        return row if row["lease"] is None and row["due_at"] > stage.clock() else None

    return await found(look)


def steps_of(row: dict[str, Any]) -> list[str]:
    return [
        f"{step.rule} {step.result}"
        for step in msgspec.json.decode(row["decisions"], type=list[Step])
        if step.result != "pass"
    ]


async def test_what_comes_at_night_leaves_in_the_morning(stage: Stage, provider: StubProvider) -> None:
    await stage.device("ada")
    async with stage.working(provider):
        notification_id = await news(stage, "ada")
        held = await waiting(stage, notification_id)
        assert (held["state"], held["due_at"], held["attempts"]) == ("scheduled", MORNING, 0)

        stage.clock.move_to(MORNING - 10 * SECOND)
        urgent = await news(stage, "ada", kind="urgent", idempotency_key="2")
        await stage.settled(urgent, "sent")
        assert [message.type for message in provider.arrived] == ["urgent"]

        stage.clock.move_to(MORNING)
        (sent,) = await stage.settled(notification_id, "sent")

    assert steps_of(sent) == ["quiet_hours hold"]


async def test_a_retry_does_not_buzz_at_night_either(stage: Stage, provider: StubProvider) -> None:
    stage.clock.move_to(datetime(2026, 1, 15, 21, 59, 55, tzinfo=UTC))
    await stage.device("ada")
    provider.script("ada", Retry("UNAVAILABLE"))
    async with stage.working(provider):
        notification_id = await news(stage, "ada")
        await stage.settled(notification_id, "retrying")
        stage.clock.advance(12 * SECOND)
        held = await waiting(stage, notification_id)
        assert (held["state"], held["due_at"], held["attempts"]) == ("retrying", MORNING, 1)
        assert len(provider.arrived) == 1
        stage.clock.move_to(MORNING)
        (sent,) = await stage.settled(notification_id, "sent")

    assert (sent["attempts"], steps_of(sent)) == (2, ["quiet_hours hold"])


async def test_a_worker_that_comes_late_does_not_buzz_at_night(stage: Stage, provider: StubProvider) -> None:
    stage.clock.move_to(EVENING)
    await stage.device("ada")
    notification_id = await news(stage, "ada")
    stage.clock.move_to(NIGHT)
    async with stage.working(provider):
        assert (await waiting(stage, notification_id))["due_at"] == MORNING

    assert not provider.arrived


async def test_the_night_is_that_of_the_place_where_the_phone_is(
    stage: Stage, provider: StubProvider
) -> None:
    await live_in(stage, "ada", "Europe/Istanbul")
    await stage.device("ada", timezone="America/Los_Angeles")
    async with stage.working(provider):
        await stage.settled(await news(stage, "ada"), "sent")


async def test_a_phone_that_registers_in_the_night_is_told_in_the_morning(
    stage: Stage, provider: StubProvider
) -> None:
    await stage.device("ada", token="phone")
    async with stage.working(provider):
        notification_id = await news(stage, "ada")
        await waiting(stage, notification_id)
        await stage.device("ada", token="tablet")
        stage.clock.move_to(MORNING)
        await until(lambda: len(provider.arrived) == 2)
        await stage.settled(notification_id, "sent")

    assert {message.target for message in provider.arrived} == {"phone", "tablet"}


async def test_a_person_without_a_phone_can_get_one_in_the_night(
    stage: Stage, provider: StubProvider
) -> None:
    async with stage.working(provider):
        notification_id = await news(stage, "ada")
        await waiting(stage, notification_id)
        await stage.device("ada")
        stage.clock.move_to(MORNING)
        await stage.settled(notification_id, "sent")


async def test_who_refuses_in_the_night_is_not_told_in_the_morning(
    stage: Stage, provider: StubProvider
) -> None:
    await stage.device("ada")
    async with stage.working(provider):
        notification_id = await news(stage, "ada")
        await waiting(stage, notification_id)
        await refuse(stage, "ada", "plain_news")
        stage.clock.move_to(MORNING)
        (row,) = await stage.settled(notification_id, "skipped")

    assert row["reason"] == "opted_out"
    assert steps_of(row) == ["quiet_hours hold", "preference skip"]
    assert not provider.arrived


async def test_what_nobody_can_refuse_comes_all_the_same(stage: Stage, provider: StubProvider) -> None:
    stage.clock.move_to(EVENING)
    await stage.device("ada")
    await refuse(stage, "ada", "critical_news")
    async with stage.working(provider):
        await stage.settled(await news(stage, "ada", kind="critical"), "sent")


async def test_what_is_urgent_does_not_wait_for_the_morning_but_can_be_refused(
    stage: Stage, provider: StubProvider
) -> None:
    await stage.device("ada")
    await stage.device("bob")
    await refuse(stage, "bob", "urgent_news")
    async with stage.working(provider):
        rows = await stage.settled(await news(stage, "ada", "bob", kind="urgent"), "sent", "skipped")

    assert {row["user_id"]: row["reason"] for row in rows} == {"ada": None, "bob": "opted_out"}


async def test_what_ends_its_time_to_live_in_the_night_expires_then_and_not_in_the_morning(
    stage: Stage, provider: StubProvider
) -> None:
    await stage.device("ada")
    async with stage.working(provider):
        notification_id = await news(stage, "ada", kind="fleeting")
        held = await waiting(stage, notification_id)
        assert held["due_at"] == await stage.pool.fetchval("select expires_at from notifications") < MORNING
        stage.clock.move_to(held["due_at"] + SECOND)
        (row,) = await stage.settled(notification_id, "expired")

    assert steps_of(row) == ["quiet_hours hold", "time_to_live skip"]
    assert not provider.arrived


# Ten in the morning of the 17th, for each of them.
TEN = datetime(2026, 1, 17, 10, 0)  # noqa: DTZ001 - a wall time has no zone
PLACES = {
    "Asia/Tokyo": datetime(2026, 1, 17, 1, 0, tzinfo=UTC),
    "Europe/Istanbul": datetime(2026, 1, 17, 7, 0, tzinfo=UTC),
    "America/New_York": datetime(2026, 1, 17, 15, 0, tzinfo=UTC),
}


@pytest.mark.parametrize("ttl", [None, 600], ids=["no time to live", "ten minutes to live"])
async def test_a_wall_time_comes_to_each_person_at_their_own(
    stage: Stage, provider: StubProvider, ttl: int | None
) -> None:
    for zone in PLACES:
        await live_in(stage, zone, zone)
        await stage.device(zone)
    async with stage.working(provider):
        notification_id = await news(stage, *PLACES, send_at_local=TEN, ttl_seconds=ttl)
        for told, (zone, moment) in enumerate(PLACES.items()):
            stage.clock.move_to(moment - 30 * SECOND)
            await found(partial(held_ahead, stage, notification_id, 3 - told))
            assert len(provider.arrived) == told
            stage.clock.move_to(moment)
            await found(partial(held_ahead, stage, notification_id, 2 - told))
            assert provider.arrived[told].target == zone
            assert provider.arrived[told].expires_at == (moment + timedelta(seconds=ttl) if ttl else None)
        await stage.settled(notification_id, "sent")


async def held_ahead(stage: Stage, notification_id: UUID, count: int) -> bool:
    rows = await stage.deliveries(notification_id)
    ahead = [row for row in rows if row["state"] == "scheduled" and row["due_at"] > stage.clock()]
    left = [row for row in rows if row["state"] == "sent"]
    return len(ahead) == count and len(ahead) + len(left) == len(rows)


async def test_a_wall_time_that_has_passed_where_somebody_lives_is_due_there_at_once(
    stage: Stage, provider: StubProvider
) -> None:
    stage.clock.move_to(PLACES["Europe/Istanbul"] + HOUR)
    for zone in PLACES:
        await live_in(stage, zone, zone)
        await stage.device(zone)
    async with stage.working(provider):
        await news(stage, *PLACES, send_at_local=TEN, ttl_seconds=600)
        await until(lambda: len(provider.arrived) == 2)

    assert {message.target for message in provider.arrived} == {"Asia/Tokyo", "Europe/Istanbul"}


async def test_a_wall_time_with_a_time_to_live_expires_behind_it(
    stage: Stage, provider: StubProvider
) -> None:
    await live_in(stage, "ada", "Europe/Istanbul")
    await stage.device("ada")
    notification_id = await news(stage, "ada", send_at_local=TEN, ttl_seconds=600)
    stage.clock.move_to(PLACES["Europe/Istanbul"] + timedelta(minutes=10))
    async with stage.working(provider):
        await stage.settled(notification_id, "expired")


async def test_a_newer_one_takes_the_place_of_an_older_that_waits(
    stage: Stage, provider: StubProvider
) -> None:
    await stage.device("ada")
    async with stage.working(provider):
        older, newer = [
            await news(stage, "ada", collapse_key="score", idempotency_key=str(number)) for number in range(2)
        ]
        other = await news(stage, "ada", collapse_key="weather", idempotency_key="other")
        for each in (newer, other):
            await waiting(stage, each)
        stage.clock.move_to(MORNING)
        (row,) = await stage.settled(older, "skipped")
        for each in (newer, other):
            await stage.settled(each, "sent")

    assert (row["reason"], steps_of(row)[-1]) == ("collapsed", "collapse_key skip")
    assert {message.collapse_key for message in provider.arrived} == {"score", "weather"}
    assert len(provider.arrived) == 2


async def test_of_many_that_collapse_only_the_last_arrives(stage: Stage, provider: StubProvider) -> None:
    stage.clock.move_to(EVENING)
    for token in ("phone", "tablet"):
        await stage.device("ada", token=token)
    made = [
        await news(stage, "ada", collapse_key="score", idempotency_key=str(number)) for number in range(20)
    ]
    async with stage.working(provider):
        await until(lambda: len(provider.arrived) == 2)
        await stage.settled(made[-1], "sent")
        for each in made[:-1]:
            await stage.settled(each, "skipped")

    assert {message.notification_id for message in provider.arrived} == {made[-1]}


async def test_one_person_does_not_collapse_for_another(stage: Stage, provider: StubProvider) -> None:
    stage.clock.move_to(EVENING)
    for user in ("ada", "bob"):
        await stage.device(user)
    made = [await news(stage, user, collapse_key="score", idempotency_key=user) for user in ("ada", "bob")]
    async with stage.working(provider):
        for each in made:
            await stage.settled(each, "sent")


async def test_by_default_only_a_person_whose_zone_is_known_waits_at_night(
    stage: Stage, provider: StubProvider
) -> None:
    """What the guides send goes to people without a time zone: it leaves at three in the morning too."""
    stage.quiet = QuietHoursSettings()
    stage.clock.move_to(datetime(2026, 1, 15, 3, 0, tzinfo=UTC))
    for user_id in ("ada", "bob"):
        await stage.device(user_id)
    await live_in(stage, "bob", "UTC")
    async with stage.working(provider):
        guided = await news(stage, "ada")
        await stage.settled(guided, "sent")
        held = await waiting(stage, await news(stage, "bob", idempotency_key="2"))

    assert [message.target for message in provider.arrived] == ["ada"]
    shown = await show(stage.pool, held["notification_id"], stage.clock())
    assert shown is not None
    (delivery,) = shown.deliveries
    assert delivery.waiting_for == (
        "quiet hours 22:00-09:00 UTC (from the person), of the deployment, until 2026-01-15 09:01:00 UTC"
    )
