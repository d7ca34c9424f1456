"""How a digest ends, and its members with it."""

from collections import Counter
from contextlib import AsyncExitStack

import pytest
from msgspec.structs import replace

from tests.engine.dispatch.digest.comments import (
    SECOND,
    WINDOW,
    carriers,
    comment,
    comments,
    digests,
    every,
    part_of,
    steps,
    tried,
)
from tests.engine.stage import QUICK, Stage, StubProvider
from tests.waiting import found, until
from tocsin.domain.delivery.outcome import Defer, Gone, Outcome, Rejected, Retry
from tocsin.domain.limits import LimitsSettings
from tocsin.domain.toggles import TypeToggle
from tocsin.engine.toggles.held import discard_and_switch_on, switch
from tocsin.store.deliveries.holds import cancel
from tocsin.store.people.preferences import refuse


async def test_every_device_gets_the_whole_list_also_after_a_fault(
    stage: Stage, provider: StubProvider
) -> None:
    await stage.device("ada", token="phone")
    await stage.device("ada", token="tablet")
    provider.script("tablet", Retry("UNAVAILABLE"))
    made = await comments(stage, 3)
    async with stage.working(provider):
        stage.clock.advance(WINDOW)
        await every(stage, made, "sent")
        later = await comment(stage, "late")
        stage.clock.advance(11 * SECOND)
        await tried(stage, provider, 3)
        (row,) = await stage.deliveries(later)
        assert (row["state"], row["held_by"]) == ("scheduled", "digest")

    told = Counter((message.target, message.body) for message in provider.arrived)
    assert told == {("phone", "a0 a1 a2"): 1, ("tablet", "a0 a1 a2"): 2}


@pytest.mark.parametrize(("gone", "alive"), [("phone", "tablet"), ("tablet", "phone")])
async def test_one_device_that_is_gone_does_not_end_what_another_gets(
    stage: Stage, provider: StubProvider, gone: str, alive: str
) -> None:
    await stage.device("ada", token="phone")
    await stage.device("ada", token="tablet")
    provider.script(gone, Gone("UNREGISTERED"))
    provider.script(alive, Retry("UNAVAILABLE"))
    made = await comments(stage, 3)
    async with stage.working(provider):
        stage.clock.advance(WINDOW)
        await tried(stage, provider, 2)
        waiting = await every(stage, made, "pending")
        assert sorted(row["state"] for row in await carriers(stage)) == ["gone", "retrying"]
        stage.clock.advance(11 * SECOND)
        await every(stage, made, "sent")

    assert [row["held_by"] for row in waiting] == ["digest"] * 3


@pytest.mark.parametrize("fault", [Retry("UNAVAILABLE"), Defer("QUOTA", 5 * SECOND)])
async def test_all_wait_together_for_the_next_attempt(
    stage: Stage, provider: StubProvider, fault: Outcome
) -> None:
    await stage.device("ada")
    provider.script("ada", fault)
    made = await comments(stage, 3)
    async with stage.working(provider):
        stage.clock.advance(WINDOW)
        await tried(stage, provider, 1)
        members = await every(stage, made, "pending")
        stage.clock.advance(11 * SECOND)
        await every(stage, made, "sent")

    assert [(row["held_by"], row["attempts"]) for row in members] == [("digest", 0)] * 3
    assert [message.body for message in provider.arrived] == ["a0 a1 a2"] * 2


async def test_what_is_taken_back_between_two_attempts_is_not_told_again(
    stage: Stage, provider: StubProvider
) -> None:
    await stage.device("ada")
    provider.script("ada", Retry("UNAVAILABLE"))
    made = await comments(stage, 3)
    async with stage.working(provider):
        stage.clock.advance(WINDOW)
        await tried(stage, provider, 1)
        assert await cancel(stage.pool, made[1], stage.clock()) == 1
        stage.clock.advance(11 * SECOND)
        await every(stage, [made[0], made[2]], "sent")

    assert [message.body for message in provider.arrived] == ["a0 a1 a2", "a0 a2"]


async def test_what_is_on_its_way_cannot_be_taken_back_but_is_not_tried_again(
    stage: Stage, provider: StubProvider
) -> None:
    await stage.device("ada")
    provider.hold()
    provider.script("ada", Retry("UNAVAILABLE"))
    made = await comments(stage, 3)
    async with stage.working(provider):
        stage.clock.advance(WINDOW)
        await until(lambda: len(provider.arrived) == 1)
        assert await cancel(stage.pool, made[2], stage.clock()) == 0
        provider.let_go.set()
        await tried(stage, provider, 1)
        stage.clock.advance(11 * SECOND)
        await every(stage, made[:2], "sent")
        await every(stage, made[2:], "cancelled")

    assert [message.body for message in provider.arrived] == ["a0 a1 a2", "a0 a1"]


@pytest.mark.parametrize(
    ("faults", "state", "code"),
    [
        ([Retry("UNAVAILABLE")] * 2, "dead", "UNAVAILABLE"),
        ([Rejected("INVALID")], "rejected", "INVALID"),
        ([Gone("UNREGISTERED")], "gone", "UNREGISTERED"),
    ],
)
async def test_members_end_as_the_digest_does(
    stage: Stage, provider: StubProvider, faults: list[Outcome], state: str, code: str
) -> None:
    await stage.device("ada")
    provider.script("ada", *faults)
    made = await comments(stage, 3)
    async with stage.working(provider):
        stage.clock.advance(WINDOW)
        for attempt in range(1, len(faults)):
            await tried(stage, provider, attempt)
            stage.clock.advance(11 * SECOND)
        members = await every(stage, made, state)

    (carrier,) = await carriers(stage)
    for row in members:
        assert (row["last_error_code"], row["held_by"]) == (code, None)
        assert row["settled_at"] is not None
        assert steps(row)[-1].detail == part_of(carrier, "ended with")
    assert await digests(stage) == ["ended"]
    assert {message.body for message in provider.arrived} == {"a0 a1 a2"}


async def test_who_opted_out_hears_of_none_and_each_has_the_reason(
    stage: Stage, provider: StubProvider
) -> None:
    await stage.device("ada")
    made = await comments(stage, 3)
    await refuse(stage.pool, "ada", "comments", "push", stage.clock())
    async with stage.working(provider):
        stage.clock.advance(WINDOW)
        members = await every(stage, made, "skipped")

    (carrier,) = await carriers(stage)
    assert {row["reason"] for row in (carrier, *members)} == {"opted_out"}
    assert {steps(row)[-1].detail for row in members} == {part_of(carrier, "ended with")}
    assert provider.arrived == []


async def test_who_has_no_device_hears_of_none_and_each_has_the_reason(
    stage: Stage, provider: StubProvider
) -> None:
    made = await comments(stage, 3)
    async with stage.working(provider):
        stage.clock.advance(WINDOW)
        rows = await every(stage, made, "skipped")

    assert {row["reason"] for row in rows} == {"no_device"}


async def test_a_digest_counts_once(stage: Stage, provider: StubProvider) -> None:
    await stage.device("ada")
    stage.limits = LimitsSettings(per_person_per_day=1)
    first = [await comment(stage, f"p{number}", post="P") for number in range(3)]
    second = [await comment(stage, f"q{number}", post="Q") for number in range(3)]
    async with stage.working(provider):
        stage.clock.advance(WINDOW)
        rows = await every(stage, first + second, "sent", "skipped")

    assert [(row["state"], row["reason"]) for row in rows] == [("sent", None)] * 3 + [
        ("skipped", "daily_limit")
    ] * 3


async def test_one_device_beyond_its_limit_does_not_end_what_another_gets(
    stage: Stage, provider: StubProvider
) -> None:
    phone = await stage.device("ada", token="phone")
    stage.limits = LimitsSettings(per_device_per_day=1)
    first = await comments(stage, 1, post="P")
    async with stage.working(provider):
        stage.clock.advance(WINDOW)
        await every(stage, first, "sent")
        await stage.device("ada", token="tablet")
        await stage.pool.execute("update devices set last_seen_at = $1 where id = $2", stage.clock(), phone)
        second = [await comment(stage, f"q{number}", post="Q") for number in range(3)]
        stage.clock.advance(WINDOW)
        await every(stage, second, "sent")

    assert Counter(row["state"] for row in (await carriers(stage))[1:]) == {"sent": 1, "skipped": 1}
    assert [(message.target, message.body) for message in provider.arrived] == [
        ("phone", "a0"),
        ("tablet", "q0 q1 q2"),
    ]


async def test_several_workers_tell_each_digest_once(stage: Stage, provider: StubProvider) -> None:
    people = [f"user{number}" for number in range(30)]
    for user in people:
        await stage.device(user)
    made = [await comment(stage, f"a{number}", user) for number in range(5) for user in people]
    async with AsyncExitStack() as stack:
        for _ in range(3):
            await stack.enter_async_context(stage.working(provider))
        stage.clock.advance(WINDOW)
        await every(stage, made, "sent")

    told = Counter((message.target, message.body) for message in provider.arrived)
    assert told == Counter((user, "a0 a1 a2 a3 a4") for user in people)


async def test_members_survive_the_worker_that_sent_them(stage: Stage, provider: StubProvider) -> None:
    await stage.device("ada")
    provider.hold()
    made = await comments(stage, 4)
    stage.clock.advance(WINDOW)
    async with stage.working(provider, settings=replace(QUICK, stop_seconds=0.01)):
        await until(lambda: len(provider.arrived) == 1)
    assert all(row["lease"] is not None for row in await carriers(stage))
    provider.let_go.set()
    async with stage.working(provider):
        stage.clock.advance(31 * SECOND)
        await every(stage, made, "sent")

    assert [message.body for message in provider.arrived] == ["a0 a1 a2 a3"] * 2


async def test_a_digest_that_a_toggle_held_is_discarded_with_its_members(
    stage: Stage, provider: StubProvider
) -> None:
    await stage.device("ada")
    made = await comments(stage, 2)
    toggle = TypeToggle("comment")
    async with stage.pool.acquire() as connection:
        await switch(connection, toggle, enabled=False, reason=None, by="ops", now=stage.clock())
    async with stage.working(provider):
        stage.clock.advance(WINDOW)
        await found(lambda: stage.pool.fetchval("select true from deliveries where held_by = 'type:comment'"))
        async with stage.pool.acquire() as connection:
            _, discarded = await discard_and_switch_on(
                connection, toggle, reason=None, by="ops", now=stage.clock()
            )
        rows = await every(stage, made, "cancelled")
        assert await digests(stage) == ["ended"]
        later = await comment(stage, "late")
        stage.clock.advance(WINDOW)
        await every(stage, [later], "sent")

    assert discarded == 1
    assert {(row["reason"], row["held_by"]) for row in rows} == {("cancelled_by_operator", None)}
    assert [message.body for message in provider.arrived] == ["late"]
