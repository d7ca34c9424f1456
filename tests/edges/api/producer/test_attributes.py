"""Custom attributes of a user, through the API."""

from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.edges.edge import Edge, faults
from tocsin.api.auth.roles import Role
from tocsin.domain.people.attributes import LARGEST_ATTRIBUTES, attribute_faults

GOOD = {"plan": "pro", "seats": 5, "score": 0.5, "beta": True, "interests": ["news", "müzik"], "note": ""}

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=20)
numbers = st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(-(2**53) + 1, 2**53 - 1)
values = st.booleans() | numbers | texts | st.lists(texts, max_size=4)
names = st.from_regex(r"\A[a-z][a-z0-9_]{0,62}\Z")


async def test_attributes_are_stored_replaced_and_exported(edge: Edge) -> None:
    producer, operator = await edge.key(Role.PRODUCER), await edge.key(Role.OPERATOR)

    stored = await edge.http.put("/v1/users/ada", json={"attributes": GOOD}, headers=producer)
    exported = await edge.http.get("/v1/users/ada/export", headers=operator)
    seen = await edge.http.get("/v1/admin/people/ada", headers=operator)
    await edge.http.put("/v1/users/ada", json={"attributes": {"plan": "free"}}, headers=producer)
    replaced = (await edge.http.get("/v1/users/ada", headers=producer)).json()
    many = {"users": [{"user_id": "ada"}, {"user_id": "bob", "attributes": GOOD}]}
    await edge.http.put("/v1/users", json=many, headers=producer)

    assert (stored.status_code, stored.json()["attributes"]) == (200, GOOD)
    assert exported.json()["directory"]["attributes"] == GOOD
    assert seen.json()["directory"]["attributes"] == GOOD
    assert replaced["attributes"] == {"plan": "free"}
    for user_id, expected in (("ada", {}), ("bob", GOOD)):
        read = await edge.http.get(f"/v1/users/{user_id}", headers=producer)
        assert read.json()["attributes"] == expected
    assert await edge.pool.fetchval("select attributes is null from users where user_id = 'ada'")


async def test_every_fault_of_attributes_is_listed(edge: Edge) -> None:
    wrong: dict[str, Any] = {
        "Plan": "pro",
        "x" * 64: 1,
        "": 1,
        "nothing": None,
        "nested": {"a": 1},
        "mixed": ["a", 1],
        "many": ["a"] * 33,
        "long": "x" * 501,
        "far": 2**53,
        "further": -1e300,
        "good": "pro",
    }
    headers = await edge.key(Role.PRODUCER)

    answer = await edge.http.put("/v1/users/ada", json={"locale": "??", "attributes": wrong}, headers=headers)
    typed = {name: value for name, value in wrong.items() if name not in {"nothing", "nested", "mixed"}}
    bulk = {"users": [{"user_id": "ada"}, {"user_id": "bob", "attributes": typed}]}
    later = await edge.http.put("/v1/users", json=bulk, headers=headers)

    assert answer.status_code == later.status_code == 422
    assert faults(answer).keys() == {
        "locale",
        "attributes.nothing",
        "attributes.nested",
        "attributes.mixed[1]",
    }
    listed = {"'Plan'", f"{'x' * 64!r}", "''", "many", "long", "far", "further"}
    assert faults(later).keys() == {f"users[1].attributes.{name}" for name in listed}
    assert await edge.pool.fetchval("select count(*) from users") == 0


@pytest.mark.parametrize(
    ("attributes", "code"),
    [
        ({f"a{number}": number for number in range(65)}, "too_many"),
        ({f"a{number}": "ü" * 250 for number in range(9)}, "too_large"),
        ("plan=pro", "invalid"),
    ],
)
async def test_the_size_of_attributes_is_bounded(edge: Edge, attributes: object, code: str) -> None:
    headers = await edge.key(Role.PRODUCER)

    answer = await edge.http.put("/v1/users/ada", json={"attributes": attributes}, headers=headers)

    assert (answer.status_code, faults(answer)) == (422, {"attributes": code})


async def test_a_nul_character_is_refused(edge: Edge) -> None:
    headers = await edge.key(Role.PRODUCER)

    answer = await edge.http.put("/v1/users/ada", json={"attributes": {"plan": "p\x00"}}, headers=headers)

    assert (answer.status_code, faults(answer)) == (422, {"attributes.plan": "nul_character"})


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(attributes=st.dictionaries(names, values, max_size=8))
async def test_what_is_accepted_is_read_back(edge: Edge, attributes: dict[str, Any]) -> None:
    headers = await edge.key(Role.PRODUCER)

    stored = await edge.http.put("/v1/users/ada", json={"attributes": attributes}, headers=headers)

    assert stored.status_code == 200
    assert (await edge.http.get("/v1/users/ada", headers=headers)).json()["attributes"] == attributes


anything = st.none() | values | st.floats() | st.integers() | st.lists(st.integers() | st.text(), max_size=40)


@given(attributes=st.dictionaries(names | st.text(), anything | st.text(min_size=490), max_size=70))
def test_attributes_without_faults_are_within_every_bound(attributes: dict[str, Any]) -> None:
    found = attribute_faults(attributes)

    msgspec.json.encode(found)
    if not found:
        assert len(msgspec.json.encode(attributes)) <= LARGEST_ATTRIBUTES
        assert b"\\u0000" not in msgspec.json.encode(attributes)
        assert msgspec.json.decode(msgspec.json.encode(attributes)) == attributes


def asking(**attributes: Any) -> dict[str, Any]:
    return {
        "type": "new_customer",
        "audience": {"attributes": attributes},
        "payload": {"customer_name": "Grace"},
        "idempotency_key": "key",
    }


async def test_an_audience_by_attributes_is_accepted_shown_and_explained(edge: Edge) -> None:
    headers = await edge.key(Role.PRODUCER)
    for user_id, plan in (("ada", "pro"), ("bob", "free"), ("eve", "pro")):
        await edge.http.put(f"/v1/users/{user_id}", json={"attributes": {"plan": plan}}, headers=headers)

    explained = await edge.http.post("/v1/notifications/explain", json=asking(plan="pro"), headers=headers)
    accepted = await edge.http.post("/v1/notifications", json=asking(plan="pro"), headers=headers)
    again = await edge.http.post("/v1/notifications", json=asking(plan="pro"), headers=headers)
    other = await edge.http.post("/v1/notifications", json=asking(plan="free"), headers=headers)
    shown = await edge.http.get(f"/v1/notifications/{accepted.json()['notification_id']}", headers=headers)

    assert [route["recipient"] for route in explained.json()["routes"]] == ["user:ada", "user:eve"]
    assert (accepted.status_code, again.json()["status"], other.status_code) == (202, "duplicate", 409)
    assert shown.json()["audience"] == {"attributes": {"plan": "pro"}}
    assert [each["recipient"] for each in shown.json()["deliveries"]] == ["user:ada", "user:eve"]


@pytest.mark.parametrize(
    ("attributes", "field", "code"),
    [
        ({}, "audience.attributes", "invalid"),
        ({"Plan": "pro"}, "audience.attributes.'Plan'", "invalid"),
        ({"plan": None}, "audience.attributes.plan", "missing"),
        ({"plan": []}, "audience.attributes.plan", "invalid"),
        ({"plan": 2**53}, "audience.attributes.plan", "invalid"),
        ({"plan": "pro"}, "audience.attributes", "nobody"),
    ],
)
async def test_a_question_with_faults_is_refused(
    edge: Edge, attributes: dict[str, Any], field: str, code: str
) -> None:
    headers = await edge.key(Role.PRODUCER)

    for path in ("/v1/notifications", "/v1/notifications/explain"):
        answer = await edge.http.post(path, json=asking(**attributes), headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid_intent")
        assert faults(answer) == {field: code}
