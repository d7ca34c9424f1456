"""Audiences by attributes: who is found, when, and what the same intent means later."""

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.engine.accept.accepting import accept, codes
from tests.engine.stage import PUSH, Stage, an_intent
from tests.rows import NOW, add_user
from tocsin.domain.intent import Audience, Intent
from tocsin.engine import time_slice
from tocsin.engine.accept.acceptor import Acceptor, TooManyDeliveriesError
from tocsin.engine.accept.answers import Accepted, Answer, Conflict, Duplicate
from tocsin.engine.accept.planner import Planner
from tocsin.engine.accept.write import accept_within
from tocsin.store.people import users
from tocsin.store.people.users import UserRow

PEOPLE = {
    "ada": '{"plan": "pro", "seats": 5, "interests": ["news", "art"], "beta": true}',
    "bob": '{"plan": "pro", "seats": 5.0, "interests": ["art"], "beta": false}',
    "eve": '{"plan": "free", "seats": 1, "interests": []}',
    "zoe": '{"plan": ["pro"], "beta": "true"}',
}


@pytest.fixture
async def people(stage: Stage) -> None:
    for user_id, attributes in PEOPLE.items():
        await add_user(stage.pool, user_id, attributes=attributes)
    await add_user(stage.pool, "nil")


def asking(key: str = "key", **attributes: Any) -> Intent:
    return an_intent(audience=Audience(attributes=attributes), idempotency_key=key)


async def found_by(stage: Stage, answer: Answer) -> list[str]:
    assert isinstance(answer, Accepted)
    return [row["user_id"] for row in await stage.deliveries(answer.notification_id)]


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ({"plan": "pro"}, ["ada", "bob"]),
        ({"plan": "pro", "beta": True}, ["ada"]),
        ({"seats": 5}, ["ada", "bob"]),
        ({"seats": 1.0}, ["eve"]),
        ({"interests": ["art"]}, ["ada", "bob"]),
        ({"interests": ["art", "news"]}, ["ada"]),
        ({"plan": ["pro"]}, ["zoe"]),
        ({"beta": "true"}, ["zoe"]),
    ],
)
@pytest.mark.usefixtures("people")
async def test_people_who_have_all_the_attributes_are_found(
    stage: Stage, attributes: dict[str, Any], expected: Sequence[str]
) -> None:
    (answer,) = await accept(stage, asking(**attributes))

    assert await found_by(stage, answer) == expected


@pytest.mark.usefixtures("people")
async def test_the_same_question_is_a_duplicate_whoever_is_found_by_then(stage: Stage) -> None:
    stage.acceptor = Acceptor(stage.pool, Planner(stage.catalog, PUSH, {}, stage.toggles, 2), stage.clock)
    (first,) = await accept(stage, asking(plan="pro", interests=["art"]))
    assert isinstance(first, Accepted)

    for change in ("bob", "ada"):
        await stage.pool.execute("update users set attributes = null where user_id = $1", change)
        assert await accept(stage, asking(plan="pro", interests=["art", "art"])) == [
            Duplicate(first.notification_id)
        ]
    assert await accept(stage, asking(plan="pro")) == [Conflict(first.notification_id)]
    await stage.pool.execute("update users set attributes = $1", PEOPLE["ada"])
    assert await accept(stage, asking(plan="pro", interests=["art"])) == [Duplicate(first.notification_id)]
    assert await stage.pool.fetchval("select count(*) from deliveries") == 2


@pytest.mark.usefixtures("people")
async def test_nobody_is_refused_and_recorded_without_harm_to_others(stage: Stage) -> None:
    planner = Planner(stage.catalog, PUSH, {}, stage.toggles, 1)
    stage.acceptor = Acceptor(stage.pool, planner, stage.clock)

    nobody, many, one, listed = await accept(
        stage, asking("1", plan="none"), asking("2", plan="pro"), asking("3", plan="free"),
        an_intent("ada", idempotency_key="4"),
    )  # fmt: skip

    assert codes(nobody) == ["nobody"]
    # Too many to be stored in one piece: a broadcast.
    assert await found_by(stage, many) == []
    assert await found_by(stage, one) == ["eve"]
    assert isinstance(listed, Accepted)
    assert await stage.pool.fetchval("select count(*) from refused_intents") == 1
    async with stage.pool.acquire() as connection, connection.transaction():
        question = [asking("5", seats=1)]
        (within,) = await accept_within(connection, planner, "shop", question, NOW, source="periodic")
    assert await found_by(stage, within) == ["eve"]


@pytest.mark.usefixtures("people")
async def test_the_limit_of_a_request_counts_the_people_that_are_found(stage: Stage) -> None:
    questions = [asking("1", plan="pro"), asking("2", plan="free")]

    with pytest.raises(TooManyDeliveriesError) as refused:
        await stage.acceptor.accept("shop", questions, limit=2)
    answers = await stage.acceptor.accept("shop", questions, limit=3)

    assert refused.value.deliveries == 3
    assert [await found_by(stage, each) for each in answers] == [["ada", "bob"], ["eve"]]


async def test_thousands_are_found_and_stored_as_one_notification(stage: Stage) -> None:
    rows = [
        UserRow(
            user_id=f"user{number}", email=None, locale=None, timezone=None, gmt_offset_seconds=None,
            updated_at=NOW, attributes={"plan": "pro"},
        )
        for number in range(3_000)
    ]  # fmt: skip
    await users.put(stage.pool, rows)

    (answer,) = await accept(stage, asking(plan="pro"))

    assert sorted(await found_by(stage, answer)) == sorted(row.user_id for row in rows)


async def test_what_is_planned_for_many_people_leaves_time_to_others(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time_slice, "SLICE_SECONDS", 0.0)
    planner = Planner(stage.catalog, PUSH, {}, stage.toggles)
    ran: list[str | None] = []

    def planned() -> Iterator[None]:
        for delivery in planner.plan_people(asking(plan="pro"), ["ada", "bob"], NOW):
            ran.append(delivery.user_id)
            yield None

    async def other() -> None:
        for _ in range(2):
            ran.append("other")
            await asyncio.sleep(0)

    await asyncio.gather(time_slice.paced(planned()), other())

    assert ran == ["ada", "other", "bob", "other"]


values = st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "a", "b", "true", "1"])
each_value = values | st.lists(st.sampled_from(["a", "b"]), max_size=2)
attributes_of = st.fixed_dictionaries({}, optional={"x": each_value, "y": each_value})


def has(person: dict[str, Any], wanted: dict[str, Any]) -> bool:
    """Return whether a person has attributes, by the words of the guide."""
    for name, value in wanted.items():
        own = person.get(name)
        if isinstance(value, list):
            if not isinstance(own, list) or not set(value) <= set(own):
                return False
        elif type(own) is not type(value) or own != value:
            return False
    return True


@settings(
    max_examples=40,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    there=st.lists(attributes_of, min_size=1, max_size=8),
    wanted=st.fixed_dictionaries({"x": each_value}, optional={"y": each_value}),
)
async def test_whoever_has_what_is_asked_for_is_found(
    stage: Stage, there: list[dict[str, Any]], wanted: dict[str, Any]
) -> None:
    known = dict.fromkeys(("email", "locale", "timezone", "gmt_offset_seconds"))
    rows = [
        UserRow(user_id=f"user{number}", updated_at=NOW, attributes=each, **known)
        for number, each in enumerate(there)
    ]
    async with stage.pool.acquire() as connection:
        await connection.execute("delete from users")
        await users.put(connection, rows)
        found = await users.with_attributes(connection, wanted, 100)

    assert found == [row.user_id for row in rows if has(row.attributes, wanted)]
