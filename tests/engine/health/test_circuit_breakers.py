from datetime import timedelta
from typing import Any

import msgspec
import pytest

from tests.engine.health.circuits import (
    HALF_A_MINUTE,
    TOUCHY,
    broken,
    circuits,
    in_state,
    long_host,
    released,
    spent,
    waiting,
)
from tests.engine.stage import Stage, StubProvider, a_provider
from tests.waiting import found, until
from tocsin.domain.catalog import DEFAULT_ATTEMPTS
from tocsin.domain.delivery.outcome import Defer, Rejected, Retry
from tocsin.engine.health.circuit_breakers import CircuitBreakers


async def test_a_provider_that_keeps_failing_is_left_alone_and_nobody_loses_an_attempt(stage: Stage) -> None:
    provider = StubProvider()
    async with stage.working(provider, a_provider("apns"), health=TOUCHY):
        await broken(stage, provider)
        row = await in_state(stage, "fcm", "open")
        tried = len(provider.arrived)
        await stage.device("ada")
        notification_id = await stage.accept("ada")
        # By then a lane that claimed in spite of its circuit breaker would have.
        await stage.device("bob", provider="apns")
        await stage.settled(await stage.accept("bob", idempotency_key="bob"), "sent")

    assert (row["code"], row["provider"], row["openings"]) == ("UNAVAILABLE", "fcm", 1)
    (delivery,) = await stage.deliveries(notification_id)
    assert (delivery["state"], delivery["attempts"], delivery["held_by"]) == ("pending", 0, None)
    assert len(provider.arrived) == tried


async def test_failures_among_successes_of_one_batch_are_weighed_against_them(stage: Stage) -> None:
    provider = a_provider("fcm", concurrency=20, batch=20)
    people = [f"user{number}" for number in range(20)]
    for number, user in enumerate(people):
        await stage.device(user)
        if number % 4 == 0:
            provider.script(user, Retry("UNAVAILABLE", after=timedelta(hours=1)))
        await stage.accept(user, idempotency_key=user)
    async with stage.working(provider, health=TOUCHY):
        await until(lambda: len(provider.arrived) == 20)

    # A worker that stops has written the state of its circuit breakers.
    assert await circuits(stage) == {}
    assert await stage.states() == {"sent": 15, "retrying": 5}


async def test_what_waits_for_a_provider_that_is_down_is_not_touched(stage: Stage) -> None:
    provider = StubProvider()
    async with stage.working(
        provider, health=msgspec.structs.replace(TOUCHY, rest_seconds=0.1, longest_rest_seconds=0.1)
    ):
        await broken(stage, provider)
        await in_state(stage, "fcm", "open")
        for number in range(50):
            await stage.device(f"user{number}")
            provider.script(f"user{number}", *[Retry("UNAVAILABLE")] * 3)
            await stage.accept(f"user{number}", idempotency_key=f"{number}")
        before = await waiting(stage, "fcm")
        arrived = len(provider.arrived)
        await until(lambda: len(provider.arrived) >= arrived + 5)
        after = await waiting(stage, "fcm")

        untouched = {each for each, xmin in before.items() if after.get(each) == xmin}
        # Only what was sent as a probe was written.
        assert len(untouched) >= len(before) - (len(provider.arrived) - arrived)
        assert untouched
        stage.clock.advance(timedelta(hours=2))
        await until(lambda: len({message.target for message in provider.arrived}) == 55)


async def test_after_its_rest_one_message_tries_and_the_rest_follow(stage: Stage) -> None:
    provider = StubProvider()
    async with stage.working(provider, health=TOUCHY):
        await broken(stage, provider)
        await in_state(stage, "fcm", "open")
        # Nothing is claimed while the only provider rests, so these wait where they are.
        waiting = [f"ada{number}" for number in range(20)]
        for user in waiting:
            await stage.device(user)
            await stage.accept(user, idempotency_key=user)
        provider.arrived.clear()
        provider.hold()

        stage.clock.advance(timedelta(hours=1, seconds=1))
        await until(lambda: bool(provider.arrived))
        await in_state(stage, "fcm", "half_open")
        assert len(provider.arrived) == 1
        provider.let_go.set()

        await in_state(stage, "fcm", "closed")
        await until(lambda: {message.target for message in provider.arrived} >= set(waiting))

    assert (await circuits(stage))["fcm"]["openings"] == 0


async def test_a_provider_is_probed_at_a_steady_pace(stage: Stage) -> None:
    provider = StubProvider()
    for number in range(5):
        await stage.device(f"victim{number}")
        provider.script(f"victim{number}", *[Retry("UNAVAILABLE")] * 3)
    async with stage.working(provider, health=TOUCHY):
        for number in range(5):
            await stage.accept(f"victim{number}", idempotency_key=f"{number}")
        first = await in_state(stage, "fcm", "open")
        stage.clock.advance(HALF_A_MINUTE)

        async def opened_again() -> dict[str, Any] | None:
            row = (await circuits(stage))["fcm"]
            return row if row["openings"] > 1 else None

        second = await found(opened_again)

    assert first["retry_at"] - first["changed_at"] == timedelta(seconds=30)
    assert second["retry_at"] - second["changed_at"] == timedelta(seconds=30)


async def test_a_provider_that_is_seldom_used_is_left_alone_after_a_few_faults_in_a_row(stage: Stage) -> None:
    """One message alone must not use up its attempts within seconds of an outage."""
    provider = StubProvider()
    await stage.device("ada")
    provider.script("ada", *[Retry("UNAVAILABLE")] * 12)
    async with stage.working(provider):
        notification_id = await stage.accept("ada", type="plain", payload={})
        for tries in (1, 2, 3):
            await until(lambda tries=tries: len(provider.arrived) == tries)  # type: ignore[misc]
            await found(lambda tries=tries: spent(stage, tries))  # type: ignore[misc]
            stage.clock.advance(timedelta(seconds=15))
        circuit = await in_state(stage, "fcm", "open")
        for probes in range(1, 7):
            stage.clock.advance(timedelta(minutes=2))
            await until(lambda probes=probes: len(provider.arrived) >= 4 + probes)  # type: ignore[misc]
            await found(lambda: released(stage))
        (row,) = await stage.deliveries(notification_id)

    assert circuit["code"] == "UNAVAILABLE"
    assert (row["state"], row["attempts"]) == ("retrying", 4)


async def test_a_message_that_may_have_arrived_is_not_sent_without_end(stage: Stage) -> None:
    """A probe whose answer was lost spends an attempt: its message would arrive with every probe."""
    provider = StubProvider()
    await stage.device("ada")
    provider.script("ada", *[Retry("timeout", uncertain=True)] * 12)
    async with stage.working(provider):
        notification_id = await stage.accept("ada", type="plain", payload={})
        for tries in range(1, DEFAULT_ATTEMPTS + 1):
            # A clock that goes on while a message is under lease would end the lease.
            await found(lambda tries=tries: spent(stage, tries))  # type: ignore[misc]
            stage.clock.advance(timedelta(minutes=2))
        await stage.settled(notification_id, "dead")

    assert (await circuits(stage))["fcm"]["state"] != "closed"
    assert len(provider.arrived) == DEFAULT_ATTEMPTS


async def test_the_other_providers_go_on(stage: Stage) -> None:
    down, up = a_provider("fcm"), a_provider("apns")
    async with stage.working(down, up, health=TOUCHY):
        await broken(stage, down)
        await in_state(stage, "fcm", "open")
        for number in range(50):
            await stage.device(f"user{number}", provider="fcm" if number % 2 else "apns")
            await stage.accept(f"user{number}", idempotency_key=f"{number}")

        await until(lambda: len(up.arrived) == 25)
        assert len(await waiting(stage, "fcm")) == 25


async def test_one_person_on_three_providers_of_which_one_is_down(stage: Stage) -> None:
    """Two get it at once, the third after recovery; the one that is gone retires only itself."""
    fcm, apns, expo = a_provider("fcm"), a_provider("apns"), a_provider("expo", batch=4)
    async with stage.working(fcm, apns, expo, health=TOUCHY):
        await broken(stage, apns)
        await in_state(stage, "apns", "open")
        for provider in ("fcm", "apns", "expo"):
            await stage.device("ada", token=f"ada-{provider}", provider=provider)

        notification_id = await stage.accept("ada")
        await until(lambda: len(fcm.arrived) == len(expo.arrived) == 1)
        states = {row["provider"]: row["state"] for row in await stage.deliveries(notification_id)}
        assert "ada-apns" not in {message.target for message in apns.arrived}

        stage.clock.advance(timedelta(hours=2))
        sent = await stage.settled(notification_id, "sent")

    assert {row["provider"] for row in sent} == {"fcm", "apns", "expo"}
    assert states.get("apns") is None
    assert [message.target for message in apns.arrived].count("ada-apns") == 1


async def test_a_quota_pauses_every_worker_at_once(stage: Stage) -> None:
    first, second = StubProvider(), StubProvider()
    await stage.device("ada")
    await stage.device("bob")
    first.script("ada", Defer("QUOTA_EXCEEDED", timedelta(minutes=10)))
    async with stage.working(first, health=TOUCHY):
        await stage.accept("ada")
        row = await in_state(stage, "fcm", "open")
    async with stage.working(second, health=TOUCHY):
        notification_id = await stage.accept("bob", idempotency_key="bob")
        stage.clock.advance(timedelta(minutes=9))
        (waiting,) = await stage.deliveries(notification_id)
        assert waiting["attempts"] == 0
        assert not second.arrived

        stage.clock.advance(timedelta(minutes=2))
        await stage.settled(notification_id, "sent")

    assert row["retry_at"] - row["changed_at"] == timedelta(minutes=10)


async def test_a_refused_credential_raises_an_alarm_that_ends_with_recovery(stage: Stage) -> None:
    provider = StubProvider()
    await stage.device("ada")
    provider.script("ada", Defer("credentials_refused", timedelta(minutes=5), "invalid_grant", alarm=True))

    async def alarms() -> list[dict[str, Any]]:
        return [dict(row) for row in await stage.pool.fetch("select * from alarms")]

    async with stage.working(provider):
        await stage.accept("ada")
        (raised,) = await found(alarms)
        stage.clock.advance(timedelta(minutes=6))
        await until(lambda: len(provider.arrived) == 2)
        await in_state(stage, "fcm", "closed")

    (cleared,) = await alarms()
    assert (raised["provider"], raised["code"], raised["cleared_at"]) == ("fcm", "credentials_refused", None)
    assert cleared["cleared_by"] == "recovered"


@pytest.mark.parametrize(
    "outcome", [Rejected("SENDER_ID_MISMATCH", quarantine=True), Rejected("internal_error", alarm=True)]
)
async def test_a_rejection_that_needs_an_operator_leaves_an_alarm(stage: Stage, outcome: Rejected) -> None:
    provider = StubProvider()
    await stage.device("ada")
    provider.script("ada", outcome)
    async with stage.working(provider):
        await stage.settled(await stage.accept("ada"), "rejected")

    (alarm,) = await stage.pool.fetch("select code, count, cleared_at from alarms")
    assert tuple(alarm) == (outcome.code, 1, None)
    assert not await circuits(stage)


@pytest.mark.parametrize("fault", [Retry("TooManyRequests", speaks_against="target"), Rejected("BAD")])
async def test_what_lies_with_a_target_is_not_held_against_the_provider(
    stage: Stage, fault: Retry | Rejected
) -> None:
    provider = StubProvider()
    async with stage.working(provider, health=TOUCHY):
        for number in range(10):
            await stage.device(f"victim{number}")
            provider.script(f"victim{number}", fault)
            await stage.accept(f"victim{number}", idempotency_key=f"{number}")
        await until(lambda: len(provider.arrived) >= 10)
        await stage.device("ada")
        await stage.settled(await stage.accept("ada"), "sent")

    assert not await circuits(stage)


async def test_what_attempts_came_to_is_counted(stage: Stage) -> None:
    provider = StubProvider()
    for user in ("ada", "bob", "cem"):
        await stage.device(user)
    provider.script("cem", Rejected("INVALID_ARGUMENT"))
    async with stage.working(provider):
        await stage.settled(await stage.accept("ada", "bob", "cem"), "sent", "rejected")

    rows = await stage.pool.fetch(
        "select provider, outcome, code, sum(count) from provider_counts group by 1, 2, 3"
    )
    assert sorted(map(tuple, rows)) == [("fcm", "rejected", "INVALID_ARGUMENT", 1), ("fcm", "sent", "", 2)]


async def test_attempts_are_counted_in_the_minute_in_which_they_are_written(stage: Stage) -> None:
    before = await stage.pool.fetchval("select date_trunc('minute', clock_timestamp())")
    breakers = CircuitBreakers(stage.pool, TOUCHY, stage.clock)
    # As if the worker had stood still after it read its clock.
    stage.clock.advance(timedelta(minutes=-3))
    breakers.record("fcm", "fcm", Rejected("INVALID_ARGUMENT"), stage.clock())

    await breakers.exchange()

    assert await stage.pool.fetchval("select min(minute) from provider_counts") >= before


async def test_the_one_that_tries_may_die_and_another_takes_its_place(stage: Stage) -> None:
    await stage.pool.execute(
        "insert into circuits (name, provider, state, code, changed_at, probe_until)"
        " values ('fcm', 'fcm', 'half_open', 'UNAVAILABLE', $1, $2)",
        stage.clock(),
        stage.clock() + timedelta(seconds=60),
    )
    provider = StubProvider()
    await stage.device("ada")
    async with stage.working(provider):
        notification_id = await stage.accept("ada")
        stage.clock.advance(timedelta(seconds=61))
        await stage.settled(notification_id, "sent")
        await in_state(stage, "fcm", "closed")


async def test_circuit_state_that_postgres_refuses_keeps_no_other_from_being_shared(stage: Stage) -> None:
    now = stage.clock()
    one = CircuitBreakers(stage.pool, TOUCHY, stage.clock)
    one.record(f"webhook/{long_host()}", "webhook", Defer("busy", HALF_A_MINUTE), now)
    one.record("fcm", "fcm", Defer("QUOTA_EXCEEDED", HALF_A_MINUTE, alarm=True), now)

    await one.exchange()

    other = CircuitBreakers(stage.pool, TOUCHY, stage.clock)
    await other.exchange()
    assert not other.is_closed("fcm")
    assert list(await circuits(stage)) == ["fcm"]
    assert await stage.pool.fetchval("select count(*) from alarms") == 1
    assert await stage.pool.fetchval("select sum(count) from provider_counts") == 2
