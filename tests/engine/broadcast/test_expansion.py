"""Broadcasts: everybody of an audience gets one delivery, whatever happens while it is expanded."""

import asyncio
from datetime import timedelta
from uuid import UUID

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.engine.accept.accepting import codes
from tests.engine.broadcast.broadcasting import (
    EVERYONE,
    a_planner,
    accept,
    add_people,
    add_segment,
    an_expander,
    expand,
    progress,
    reached,
)
from tests.engine.stage import Stage, StubProvider, an_intent
from tests.waiting import found
from tocsin.domain.decide import Step
from tocsin.domain.intent import Audience
from tocsin.engine.accept import write
from tocsin.engine.accept.acceptor import Acceptor
from tocsin.engine.accept.answers import Accepted, Conflict, Duplicate
from tocsin.engine.broadcast import expansion
from tocsin.engine.inspect.explain import SAMPLE, Explainer
from tocsin.engine.inspect.show import show
from tocsin.store.broadcasts import broadcasts
from tocsin.store.deliveries import holds
from tocsin.store.deliveries.cancelling import cancel_many
from tocsin.wire.notifications import Explanation

PEOPLE = [f"user{number:03}" for number in range(90)]


@pytest.fixture
async def people(stage: Stage) -> None:
    await add_people(stage, PEOPLE)


@pytest.mark.usefixtures("people")
async def test_everyone_of_the_directory_and_with_a_device_gets_one_delivery(stage: Stage) -> None:
    await stage.device("not in the directory")
    await stage.device("user005")
    await stage.device("retired", retired_at=stage.clock(), retired_reason="UNREGISTERED")

    notification_id = await accept(stage)
    before = await reached(stage, notification_id)
    row = await expand(stage, notification_id)

    assert before == []
    assert await reached(stage, notification_id) == sorted([*PEOPLE, "not in the directory"])
    assert (row.state, row.expanded, row.total, row.position) == ("finished", 91, 91, "")
    lanes = {each["user_id"]: each["lane"] for each in await stage.deliveries(notification_id)}
    assert (lanes["user005"], lanes["user006"]) == ("fcm", "fanout")


async def test_an_audience_by_attributes_that_is_too_large_for_one_piece_is_a_broadcast(stage: Stage) -> None:
    await add_people(stage, PEOPLE)
    pro = """update users set attributes = '{"plan": "pro"}' where user_id like '%7'"""
    await stage.pool.execute(pro)

    notification_id = await accept(stage, Audience(attributes={"plan": "pro"}))
    row = await expand(stage, notification_id)

    assert await reached(stage, notification_id) == PEOPLE[7::10]
    assert (row.state, row.expanded, row.total) == ("finished", 9, 9)


async def test_a_segment_is_that_of_the_moment_of_acceptance(stage: Stage) -> None:
    await add_segment(stage, "vip", PEOPLE)
    notification_id = await accept(stage, Audience(segment="vip"))
    await expand(stage, notification_id, steps=2)
    await add_segment(stage, "vip", ["somebody else"])

    row = await expand(stage, notification_id)

    assert await reached(stage, notification_id) == PEOPLE
    assert (row.state, row.expanded, row.total) == ("finished", 90, 90)


async def test_an_organisation_reaches_its_own_people_alone(stage: Stage) -> None:
    await add_people(stage, ["ada", "bob"], "north")
    await add_people(stage, ["eve"], "south")
    await stage.device("nobody's")
    await add_segment(stage, "vip", ["ada", "bob"], "north")
    await stage.pool.execute("update users set org_id = 'south' where user_id = 'bob'")

    of_org = await accept(stage, org_id="north", idempotency_key="1")
    of_segment = await accept(stage, Audience(segment="vip"), org_id="north", idempotency_key="2")
    rows = [await expand(stage, each) for each in (of_org, of_segment)]

    assert [await reached(stage, each) for each in (of_org, of_segment)] == [["ada"], ["ada"]]
    assert [row.state for row in rows] == ["finished", "finished"]
    for org_id in (None, "south"):
        intent = an_intent(audience=Audience(segment="vip"), org_id=org_id, idempotency_key="3")
        (answer,) = await stage.acceptor.accept("shop", [intent])
        assert codes(answer) == ["unknown_segment"]


async def test_an_audience_of_nobody_is_refused_and_the_same_intent_is_a_duplicate(stage: Stage) -> None:
    acceptor = Acceptor(stage.pool, a_planner(stage), stage.clock)
    everyone = an_intent(audience=EVERYONE)
    await add_segment(stage, "empty", [])

    nobody, empty = await acceptor.accept(
        "shop", [everyone, an_intent(audience=Audience(segment="empty"), idempotency_key="2")]
    )
    await add_people(stage, ["ada"])
    (first,) = await acceptor.accept("shop", [everyone], limit=1)
    again = await acceptor.accept("shop", [everyone, an_intent("ada")])

    assert (codes(nobody), codes(empty)) == (["nobody"], ["nobody"])
    assert isinstance(first, Accepted)
    assert again == [Duplicate(first.notification_id), Conflict(first.notification_id)]
    assert await stage.pool.fetchval("select count(*) from broadcasts") == 1


@pytest.mark.usefixtures("people")
async def test_a_chunk_that_fails_is_written_once_later(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    notification_id = await accept(stage)
    await expand(stage, notification_id, steps=3)
    half = await reached(stage, notification_id)

    async def fail(*_: object) -> None:
        raise RuntimeError("the worker crashed after the deliveries were stored")

    with monkeypatch.context() as failing:
        failing.setattr(broadcasts, "advance", fail)
        stage.clock.advance(timedelta(seconds=1))
        assert await an_expander(stage).step()
    assert await reached(stage, notification_id) == half
    assert (await progress(stage, notification_id)).waiting_for == "retried after an error"
    row = await expand(stage, notification_id)

    assert 0 < len(half) < len(PEOPLE)
    assert await reached(stage, notification_id) == PEOPLE
    assert (row.state, row.expanded) == ("finished", 90)


@pytest.mark.usefixtures("people")
async def test_a_broadcast_that_fails_does_not_hold_up_another(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing = await accept(stage)
    fine = await accept(stage, idempotency_key="2")
    planned = write.add_planned

    async def fail(connection: object, notification: object, *more: object) -> None:
        if notification.id == failing:  # type: ignore[attr-defined]
            raise ValueError("an odd value")
        await planned(connection, notification, *more)  # type: ignore[arg-type]

    monkeypatch.setattr(expansion, "add_planned", fail)
    row = await expand(stage, fine)

    assert row.state == "finished"
    assert await reached(stage, failing) == []
    assert await reached(stage, fine) == PEOPLE


@pytest.mark.usefixtures("people")
async def test_several_workers_expand_everybody_once(stage: Stage) -> None:
    notification_id = await accept(stage)
    expanders = [an_expander(stage) for _ in range(3)]

    while (await progress(stage, notification_id)).state == "expanding":
        stage.clock.advance(timedelta(seconds=1))
        await asyncio.gather(*(each.step() for each in expanders))

    assert await reached(stage, notification_id) == PEOPLE


@pytest.mark.usefixtures("people")
@pytest.mark.parametrize("by_query", [False, True])
async def test_cancelling_ends_the_expansion(stage: Stage, *, by_query: bool) -> None:
    notification_id = await accept(stage)
    await expand(stage, notification_id, steps=2)

    async with stage.pool.acquire() as connection:
        if by_query:
            step = Step(rule="cancelled", result="skip", detail="-", at=stage.clock())
            cancelled = await cancel_many(connection, [notification_id], step, stage.clock())
        else:
            cancelled = await holds.cancel(connection, notification_id, stage.clock())
    row = await expand(stage, notification_id)

    assert (row.state, row.expanded, cancelled) == ("cancelled", 20, 20)
    assert {each["state"] for each in await stage.deliveries(notification_id)} == {"cancelled"}


@pytest.mark.usefixtures("people")
async def test_what_a_chunk_stores_while_it_is_cancelled_is_not_sent(stage: Stage) -> None:
    notification_id = await accept(stage)
    await stage.pool.execute("update notifications set cancelled_at = now()")

    row = await expand(stage, notification_id)

    assert (row.state, await reached(stage, notification_id)) == ("cancelled", [])


@pytest.mark.usefixtures("people")
async def test_nobody_is_expanded_after_the_time_to_live(stage: Stage) -> None:
    notification_id = await accept(stage, ttl_seconds=60)
    await expand(stage, notification_id, steps=2)
    stage.clock.advance(timedelta(minutes=2))

    row = await expand(stage, notification_id)

    assert (row.state, row.expanded) == ("expired", 20)


@pytest.mark.usefixtures("people")
async def test_a_type_that_is_switched_off_pauses_its_broadcasts(stage: Stage) -> None:
    notification_id = await accept(stage)
    await expand(stage, notification_id, steps=2)
    await stage.pool.execute(
        "insert into toggles (name, enabled, updated_at, updated_by)"
        " values ('type:plain', false, now(), 'op')"
    )
    async with stage.pool.acquire() as connection:
        await stage.toggles.load(connection)

    paused = await expand(stage, notification_id, steps=3)
    await stage.pool.execute("delete from toggles")
    async with stage.pool.acquire() as connection:
        await stage.toggles.load(connection)
    row = await expand(stage, notification_id)

    assert (paused.state, paused.expanded, paused.waiting_for) == ("expanding", 20, "plain is switched off")
    assert (row.state, row.waiting_for) == ("finished", None)
    assert {each["state"] for each in await stage.deliveries(notification_id)} == {"pending"}


@pytest.mark.usefixtures("people")
async def test_a_broadcast_for_later_begins_then_and_can_be_moved(stage: Stage) -> None:
    at = stage.clock() + timedelta(hours=2)
    notification_id = await accept(stage, send_at=at)
    waiting = await expand(stage, notification_id, steps=2)

    later = at + timedelta(hours=1)
    async with stage.pool.acquire() as connection:
        await holds.reschedule(connection, notification_id, later, stage.clock())
    stage.clock.move_to(at + timedelta(minutes=1))
    moved = await expand(stage, notification_id, steps=2)
    stage.clock.move_to(later)
    row = await expand(stage, notification_id)

    assert (waiting.expanded, moved.expanded, moved.next_at) == (0, 0, later)
    assert (row.state, row.expanded) == ("finished", 90)
    assert {each["state"] for each in await stage.deliveries(notification_id)} == {"pending"}


@pytest.mark.usefixtures("people")
async def test_the_deliveries_are_those_that_an_ordinary_intent_plans(stage: Stage) -> None:
    audience, users = Audience(everyone=True), Audience(users=list(PEOPLE))
    for number, (name, more) in enumerate([
        ("alert", {}), ("step", {}), ("gathered", {}), ("plain", {"collapse_key": "k"}), ("must_know", {}),
    ]):  # fmt: skip
        ordinary = await accept(stage, users, type=name, idempotency_key=f"{number} a", **more)
        broadcast = await accept(stage, audience, type=name, idempotency_key=f"{number} b", **more)
        await expand(stage, broadcast)
        columns = ("user_id", "channel", "lane", "state", "reason", "ordering_key", "collapse_key",
                   "fallback_for", "held_by")  # fmt: skip
        both = [
            sorted(str([each[column] for column in columns]) for each in await stage.deliveries(one))
            for one in (ordinary, broadcast)
        ]
        assert both[0] == both[1]
    assert await stage.pool.fetchval("select count(*) from digests") == len(PEOPLE)


@pytest.mark.usefixtures("people")
async def test_progress_is_shown_and_explained_by_a_sample(stage: Stage) -> None:
    notification_id = await accept(stage)
    await expand(stage, notification_id, steps=2)
    explainer = Explainer(a_planner(stage), stage.rules(StubProvider()))

    async with stage.pool.acquire() as connection:
        shown = await show(connection, notification_id, stage.clock())
        explained = await explainer.explain(connection, "shop", an_intent(audience=EVERYONE), stage.clock())

    assert shown is not None
    assert shown.broadcast is not None
    assert (shown.broadcast.state, shown.broadcast.expanded, shown.broadcast.total) == ("expanding", 20, 90)
    assert isinstance(explained, Explanation)
    assert (explained.audience_size, len(explained.routes)) == (90, SAMPLE)


async def test_a_worker_sends_a_broadcast_while_it_is_expanded(stage: Stage) -> None:
    await add_people(stage, PEOPLE)
    for user_id in PEOPLE:
        await stage.device(user_id)
    provider = StubProvider()
    async with stage.working(provider):
        expanding = asyncio.create_task(an_expander(stage).run())
        notification_id = await accept(stage)

        async def is_done() -> bool:
            return (await progress(stage, notification_id)).state == "finished"

        await found(is_done)
        await stage.settled(notification_id, "sent")
        expanding.cancel()

    assert sorted(message.target for message in provider.arrived) == PEOPLE


ids = st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), min_size=1, max_size=6)


@settings(
    max_examples=15,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    deadline=None,
)
@given(
    stay=st.sets(ids, min_size=1, max_size=60),
    leave=st.sets(ids, max_size=10),
    join=st.sets(ids, max_size=10),
)
async def test_whoever_stays_is_expanded_exactly_once_and_nobody_twice(
    stage: Stage, stay: set[str], leave: set[str], join: set[str]
) -> None:
    leave -= stay
    join -= stay | leave
    await stage.pool.execute("truncate users, broadcasts, deliveries, notifications cascade")
    await add_people(stage, stay | leave)
    notification_id: UUID = await accept(stage)
    await expand(stage, notification_id, steps=2)
    await stage.pool.execute("delete from users where user_id = any($1::text[])", list(leave))
    await add_people(stage, join)

    row = await expand(stage, notification_id)

    there = await reached(stage, notification_id)
    assert row.state == "finished"
    assert len(there) == len(set(there)) == row.expanded
    assert stay <= set(there) <= stay | leave | join


@pytest.mark.usefixtures("people")
async def test_the_people_of_other_providers_do_not_wait_for_one_that_is_switched_off(stage: Stage) -> None:
    notification_id = await accept(stage)
    before = await expand(stage, notification_id, steps=2)
    expander = an_expander(stage)
    await stage.pool.execute("update deliveries set lane = 'apns', due_at = $1", stage.clock())

    assert await expander.step()
    waiting = await progress(stage, notification_id)
    await stage.pool.execute(
        "insert into toggles (name, enabled, updated_at, updated_by)"
        " values ('provider:apns', false, now(), 'op')"
    )
    stage.clock.advance(timedelta(milliseconds=100))
    assert await expander.step()
    row = await progress(stage, notification_id)

    assert (before.expanded, waiting.expanded) == (20, 20)
    assert row.expanded > waiting.expanded
