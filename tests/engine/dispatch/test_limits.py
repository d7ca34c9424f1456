from collections import Counter
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec
import pytest

from tests.engine.stage import QUICK, Stage, StubProvider, an_intent
from tests.rows import delivery, take
from tests.waiting import found, until
from tocsin.domain.decide import Step
from tocsin.domain.delivery.outcome import Retry
from tocsin.domain.ids import new_lease_id
from tocsin.domain.limits import LimitsSettings
from tocsin.engine.accept.answers import Accepted
from tocsin.engine.dispatch import fan_out as module
from tocsin.engine.dispatch.attempt import Attempt
from tocsin.engine.dispatch.fan_out import FanOut
from tocsin.store.pool import Connection

# Noon in Istanbul and in London, on an ordinary day; no limit's window ends while a test runs.
NOON = datetime(2026, 1, 15, 11, 5, tzinfo=UTC)
DAY = timedelta(days=1)


@pytest.fixture
def provider() -> StubProvider:
    return StubProvider()


@pytest.fixture(autouse=True)
def _at_noon(stage: Stage) -> None:
    stage.clock.move_to(NOON)


async def accept_many(stage: Stage, count: int, *users: str, kind: str = "plain", batch: str = "") -> None:
    intents = [
        an_intent(*users, type=kind, payload={}, idempotency_key=f"{kind}{batch}{number}")
        for number in range(count)
    ]
    answers = await stage.acceptor.accept("shop", intents)
    assert all(isinstance(answer, Accepted) for answer in answers)


async def live_in(stage: Stage, user_id: str, zone: str) -> None:
    await stage.pool.execute(
        "insert into users (user_id, timezone, updated_at) values ($1, $2, $3)", user_id, zone, stage.clock()
    )


async def work(stage: Stage, provider: StubProvider, workers: int = 2) -> None:
    """Let some workers do all that can be done by now."""
    async with AsyncExitStack() as stack:
        for _ in range(workers):
            await stack.enter_async_context(stage.working(provider))
        await found(lambda: idle(stage))


async def idle(stage: Stage) -> bool:
    due: int = await stage.pool.fetchval(
        "select count(*) from deliveries "
        "where state in ('scheduled', 'pending', 'retrying') and (due_at <= $1 or lease is not null)",
        stage.clock(),
    )
    return due == 0


async def reasons(stage: Stage) -> Counter[str]:
    rows = await stage.pool.fetch(
        "select coalesce(reason, state) as what, count(*) from deliveries group by 1"
    )
    return Counter(dict(map(tuple, rows)))


async def held_until(stage: Stage) -> Counter[datetime]:
    rows = await stage.pool.fetch(
        "select due_at, count(*) from deliveries where state in ('scheduled', 'retrying') group by 1"
    )
    return Counter(dict(map(tuple, rows)))


async def last_step(stage: Stage, delivery_id: UUID) -> Step:
    steps = msgspec.json.decode((await delivery(stage.pool, delivery_id))["decisions"], type=list[Step])
    return steps[-1]


async def one_with(stage: Stage, reason: str) -> UUID:
    found: UUID = await stage.pool.fetchval("select id from deliveries where reason = $1 limit 1", reason)
    return found


async def test_a_hundred_to_one_person_at_once_through_two_workers_are_three(
    stage: Stage, provider: StubProvider
) -> None:
    stage.limits = LimitsSettings(per_person_per_day=3)
    await stage.device("ada")
    await accept_many(stage, 100, "ada")

    await work(stage, provider)

    assert await reasons(stage) == {"sent": 3, "daily_limit": 97}
    assert len(provider.arrived) == 3
    step = await last_step(stage, await one_with(stage, "daily_limit"))
    assert (step.rule, step.result, step.detail) == ("limit", "skip", "3 a day for a person")


async def test_each_person_has_a_limit_of_their_own(stage: Stage, provider: StubProvider) -> None:
    stage.limits = LimitsSettings(per_person_per_day=2)
    people = [f"user{number}" for number in range(10)]
    for user in people:
        await stage.device(user)
    await accept_many(stage, 5, *people)

    await work(stage, provider)

    assert await reasons(stage) == {"sent": 20, "daily_limit": 30}
    assert set(Counter(message.target for message in provider.arrived).values()) == {2}


async def test_the_rest_waits_for_the_next_day_of_the_person_if_it_is_to_be_deferred(
    stage: Stage, provider: StubProvider
) -> None:
    stage.limits = LimitsSettings(per_person_per_day=3, beyond="defer")
    await live_in(stage, "ada", "Europe/Istanbul")
    await stage.device("ada")
    await accept_many(stage, 8, "ada")

    await work(stage, provider)
    midnight = datetime(2026, 1, 15, 21, 0, tzinfo=UTC)
    assert await held_until(stage) == {midnight: 5}
    assert len(provider.arrived) == 3

    stage.clock.move_to(midnight)
    await work(stage, provider)
    assert await held_until(stage) == {midnight + DAY: 2}
    assert len(provider.arrived) == 6

    stage.clock.move_to(midnight + DAY)
    await work(stage, provider)
    assert await reasons(stage) == {"sent": 8}


@pytest.mark.parametrize("person", [None, 100], ids=["no limit by person", "a limit by person besides"])
async def test_each_device_has_a_limit_of_its_own(
    stage: Stage, provider: StubProvider, person: int | None
) -> None:
    stage.limits = LimitsSettings(per_person_per_day=person, per_device_per_day=2)
    await stage.device("ada", token="phone")
    await accept_many(stage, 1, "ada")
    await work(stage, provider)
    await stage.device("ada", token="tablet")
    await accept_many(stage, 5, "ada", batch="later")

    await work(stage, provider)

    assert Counter(message.target for message in provider.arrived) == {"phone": 2, "tablet": 2}
    assert await reasons(stage) == {"sent": 4, "daily_limit": 7}


@pytest.mark.parametrize("person", [None, 100], ids=["no limit by person", "a limit by person besides"])
async def test_what_a_device_defers_counts_again_on_the_next_day(
    stage: Stage, provider: StubProvider, person: int | None
) -> None:
    stage.limits = LimitsSettings(per_person_per_day=person, per_device_per_day=2, beyond="defer")
    for token in ("phone", "tablet"):
        await stage.device("ada", token=token)
    await accept_many(stage, 5, "ada")
    midnight = datetime(2026, 1, 16, tzinfo=UTC)

    for day in range(3):
        await work(stage, provider)
        told = Counter(message.target for message in provider.arrived)
        assert told == dict.fromkeys(("phone", "tablet"), min(2 * (day + 1), 5))
        stage.clock.move_to(midnight + day * DAY)

    assert await reasons(stage) == {"sent": 10}


async def test_a_category_has_a_limit_of_its_own(stage: Stage, provider: StubProvider) -> None:
    stage.limits = LimitsSettings(categories={"plain_news": 2})
    await stage.device("ada")
    await accept_many(stage, 5, "ada")
    await accept_many(stage, 4, "ada", kind="fleeting")

    await work(stage, provider)

    assert await reasons(stage) == {"sent": 6, "daily_limit": 3}
    assert Counter(message.type for message in provider.arrived) == {"plain": 2, "fleeting": 4}


async def test_a_type_is_throttled_by_the_window(stage: Stage, provider: StubProvider) -> None:
    for user in ("ada", "bob"):
        await stage.device(user)
    await accept_many(stage, 20, "ada", "bob", kind="rare")

    await work(stage, provider)
    assert await reasons(stage) == {"sent": 4, "throttled": 36}
    assert Counter(message.target for message in provider.arrived) == {"ada": 2, "bob": 2}
    step = await last_step(stage, await one_with(stage, "throttled"))
    assert (step.rule, step.result, step.detail) == ("limit", "skip", "2 of rare in 1h")

    stage.clock.advance(timedelta(hours=1))
    await accept_many(stage, 3, "ada", kind="rare", batch="later")
    await work(stage, provider)
    assert await reasons(stage) == {"sent": 6, "throttled": 37}


async def test_a_throttle_may_defer_to_the_next_window(stage: Stage, provider: StubProvider) -> None:
    await stage.device("ada")
    await accept_many(stage, 5, "ada", kind="paced")
    window = datetime(2026, 1, 15, 12, 0, tzinfo=UTC)

    await work(stage, provider)
    assert await held_until(stage) == {window: 3}
    for hour in range(2):
        stage.clock.move_to(window + timedelta(hours=hour))
        await work(stage, provider)

    assert await reasons(stage) == {"sent": 5}


async def test_what_is_critical_needs_no_place(stage: Stage, provider: StubProvider) -> None:
    stage.limits = LimitsSettings(per_person_per_day=1, per_device_per_day=1, categories={"critical_news": 1})
    await stage.device("ada")
    await accept_many(stage, 2, "ada")
    await accept_many(stage, 5, "ada", kind="critical")

    await work(stage, provider)

    assert await reasons(stage) == {"sent": 6, "daily_limit": 1}


@pytest.mark.parametrize(
    "limits",
    [
        {"per_person_per_day": 2},
        {"per_device_per_day": 2},
        {"per_person_per_day": 2, "per_device_per_day": 2},
    ],
    ids=repr,
)
@pytest.mark.parametrize("faulty", ["phone", "tablet"])
async def test_a_retry_keeps_its_place_and_needs_no_other(
    stage: Stage, provider: StubProvider, limits: dict[str, Any], faulty: str
) -> None:
    stage.limits = LimitsSettings(**limits)
    for token in ("phone", "tablet"):
        await stage.device("ada", token=token)
    provider.script(faulty, *[Retry("UNAVAILABLE")] * 3)
    await accept_many(stage, 1, "ada")
    for _ in range(4):
        await work(stage, provider)
        stage.clock.advance(timedelta(seconds=12))

    await accept_many(stage, 2, "ada", batch="later")
    await work(stage, provider)

    assert (await reasons(stage))["sent"] == 4


async def test_nobody_is_told_twice_of_one_notification_by_a_second_device(
    stage: Stage, provider: StubProvider
) -> None:
    stage.limits = LimitsSettings(per_person_per_day=2)
    for token in ("phone", "tablet", "watch"):
        await stage.device("ada", token=token)
    await accept_many(stage, 3, "ada")

    await work(stage, provider)

    assert await reasons(stage) == {"sent": 6, "daily_limit": 1}


async def counted(stage: Stage) -> dict[str, int]:
    """Return how much of each limit is used, by the part of its key before the person or device."""
    rows = await stage.pool.fetch("select key, used from limit_counters where used > 0")
    return {row["key"].partition(":")[0]: row["used"] for row in rows}


@pytest.mark.parametrize(
    ("step", "phones"), [("reserve", 1), ("reserve", 2), ("mark_reserved", 1), ("fan_out", 2)]
)
@pytest.mark.parametrize("moment", ["before", "after"])
async def test_a_crash_anywhere_between_the_limit_and_the_mark_costs_no_place(
    stage: Stage, provider: StubProvider, monkeypatch: pytest.MonkeyPatch, step: str, moment: str, phones: int
) -> None:
    """The worker loses its database in the middle; whoever takes over finds the limit as it was."""
    stage.limits = LimitsSettings(per_person_per_day=1, per_device_per_day=1)
    for number in range(phones):
        await stage.device("ada", token=f"phone{number}")
    await accept_many(stage, 1, "ada")
    real, crashes = getattr(module, step), [1]

    async def crashing(connection: Connection, *args: Any) -> Any:
        if crashes and moment == "before":
            crashes.pop()
            raise ConnectionError("the database went away")
        result = await real(connection, *args)
        if crashes:
            crashes.pop()
            raise ConnectionError("the database went away")
        return result

    monkeypatch.setattr(module, step, crashing)
    async with stage.working(provider):
        await until(lambda: not crashes)
        stage.clock.advance(timedelta(seconds=QUICK.lease_seconds))
        await found(lambda: all_settled(stage))

    assert await reasons(stage) == {"sent": phones}
    assert await counted(stage) == {"person": 1, "device": 1}


async def all_settled(stage: Stage) -> bool:
    states = await stage.states()
    return not any(states[state] for state in ("scheduled", "pending", "retrying"))


async def test_who_lost_the_lease_uses_no_place(stage: Stage, provider: StubProvider) -> None:
    stage.limits = LimitsSettings(per_person_per_day=1)
    await stage.device("ada")
    await accept_many(stage, 1, "ada")
    lease = new_lease_id()
    (claimed,) = await take(stage.pool, lane="fcm", now=stage.clock(), lease=lease)
    rules = stage.rules(provider)
    attempt = Attempt.of(claimed, lease, stage.clock())
    rules.decide_attempt(attempt, stage.clock())
    await stage.pool.execute("update deliveries set lease = $1", new_lease_id())

    placed = await FanOut(stage.pool, rules, "fcm").place([attempt], lease, stage.clock())

    assert (placed.attempts, placed.limited) == ([], [])
    assert await counted(stage) == {}


async def test_what_every_device_is_too_full_for_uses_no_place_of_the_person(
    stage: Stage, provider: StubProvider
) -> None:
    stage.limits = LimitsSettings(per_person_per_day=3, per_device_per_day=1)
    await stage.device("ada", token="phone")
    await accept_many(stage, 5, "ada")

    await work(stage, provider)
    assert await reasons(stage) == {"sent": 1, "daily_limit": 4}
    assert await counted(stage) == {"person": 1, "device": 1}
    await stage.device("ada", token="tablet")
    await accept_many(stage, 1, "ada", batch="later")
    await work(stage, provider)

    assert Counter(message.target for message in provider.arrived) == {"phone": 1, "tablet": 1}


async def test_a_device_that_is_full_has_no_mark_that_would_let_it_pass_after_a_crash(
    stage: Stage, provider: StubProvider
) -> None:
    stage.limits = LimitsSettings(per_device_per_day=1)
    await stage.device("ada", token="phone")
    await accept_many(stage, 2, "ada")
    lease = new_lease_id()
    claimed = await take(stage.pool, lane="fcm", now=stage.clock(), lease=lease)
    rules = stage.rules(provider)
    attempts = [Attempt.of(each, lease, stage.clock()) for each in claimed]
    for attempt in attempts:
        rules.decide_attempt(attempt, stage.clock())

    placed = await FanOut(stage.pool, rules, "fcm").place(attempts, lease, stage.clock())

    marked = await stage.pool.fetch("select id from deliveries where reserved")
    assert [row["id"] for row in marked] == [each.id for each in placed.attempts]
    assert len(placed.limited) == 1
