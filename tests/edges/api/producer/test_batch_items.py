from typing import Any

import msgspec
import pytest

from tests.edges.api.producer.posting import BATCH, intent, refused_codes
from tests.edges.edge import Edge, faults
from tocsin.api.auth.roles import Role
from tocsin.api.http.bodies import NUL
from tocsin.api.producer.intents import read_item, read_items
from tocsin.domain.intent import Intent

GOOD = {"type": "t", "audience": {"users": ["ada"]}, "payload": {"a": "b"}, "idempotency_key": "k"}


def nested(levels: int) -> Any:
    return [] if levels == 1 else [nested(levels - 1)]


@pytest.mark.parametrize(
    ("change", "is_read"),
    [
        ({}, True),
        ({"payload": {"a": {"b": [1, {"c": None}]}}}, True),
        ({"payload": {"many": [{} for _ in range(100)]}}, True),
        ({"payload": {"a": nested(62)}}, True),
        ({"payload": {"a": nested(63)}}, False),
        ({"payload": {"a": nested(200)}}, False),
        ({"payload": []}, False),
        ({"payload": {"a": "\\u0000"}}, True),
        ({"payload": {"a": "\x00"}}, False),
        ({"idempotency_key": "a\x00"}, False),
        ({"audience": {"users": []}}, False),
        ({"audience": {"attributes": {"tags": ["a"]}}}, True),
        ({"unknown": 1}, False),
    ],
)
async def test_an_intent_is_read_in_a_batch_as_it_is_alone(change: dict[str, Any], is_read: bool) -> None:  # noqa: FBT001
    body = msgspec.json.encode(GOOD | change)
    items = [msgspec.Raw(msgspec.json.encode(GOOD)), msgspec.Raw(body)]

    [good, read] = await read_items(items, may_hold_nul=NUL in body)

    assert good == msgspec.convert(GOOD, Intent)
    assert read == read_item(msgspec.Raw(body))
    assert isinstance(read, Intent) is is_read


async def test_an_item_that_is_no_text_fails_alone() -> None:
    good = msgspec.Raw(msgspec.json.encode(GOOD))
    broken = msgspec.Raw(bytes(good).replace(b"ada", b"\xff"))

    [read, unreadable] = await read_items([good, broken], may_hold_nul=False)

    assert isinstance(read, Intent)
    assert unreadable == read_item(broken)
    assert not isinstance(unreadable, Intent)


def deep(levels: int) -> bytes:
    return b'{"payload":' + b"[" * levels + b"]" * levels + b"}"


@pytest.mark.parametrize(
    ("item", "code"),
    [
        (b'{"payload": {"customer_name": "cut \\ud83d"}, "idempotency_key": "k"}', "malformed_json"),
        (b'{"type": "\\udc00"}', "malformed_json"),
        (b'"\\ud800"', "malformed_json"),
        (deep(70), "too_deep"),
        (deep(1_000), "too_deep"),
        (deep(3_900), "too_deep"),
        (deep(1_000).replace(b"[]", b'["\\ud800"]'), "too_deep"),
    ],
    ids=["cut emoji", "second half", "text", "deep", "deeper", "deepest", "both"],
)
async def test_no_content_of_an_item_fails_its_batch(edge: Edge, item: bytes, code: str) -> None:
    first, last = msgspec.json.encode(intent("first")), msgspec.json.encode(intent("last"))
    body = b'{ "notifications" : [%b,\n %b , %b ] }' % (first, item, last)

    answer = await edge.http.post(BATCH, content=body, headers=await edge.key(Role.PRODUCER))

    assert answer.status_code == 200
    results = answer.json()["results"]
    assert [result["status"] for result in results] == ["accepted", "invalid", "accepted"]
    assert [(error["field"], error["code"]) for error in results[1]["errors"]] == [("$", code)]
    assert await refused_codes(edge) == ["invalid_intent"]


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b'{"notifications": [%b, {"type": "\\ud800"}], "\\ud800": 1}', 400, "malformed_json"),
        (b'{"notifications": [%b, {"type": "\\ud800"}]', 400, "malformed_json"),
        (b'{"notifications": [%b, {"type": "\\ud800", "payload": NaN}]}', 400, "malformed_json"),
        (b'{"notifications": [%b, {"type": "\\ud800"} {}]}', 400, "malformed_json"),
        (b'{"notifications": [%b, {"type": "\\ud800"}], "x": 1}', 422, "invalid_body"),
        (b'{"notifications": [%b, "\\ud800"' + b",1" * 999 + b"]}", 422, "invalid_body"),
        (b'{"notifications": [%b], "x": ' + b"[" * 1_000 + b"]" * 1_000 + b"}", 422, "invalid_body"),
        (b'{"notifications": [%b, ' + b"[" * 100_000, 422, "invalid_body"),
        (b'{"notifications": [%b, ' + deep(60_000) + b"]}", 422, "invalid_body"),
    ],
    ids=[
        "name",
        "open",
        "nan",
        "no comma",
        "unknown",
        "too many",
        "deep outside",
        "deep and open",
        "deepest",
    ],
)
async def test_what_is_no_batch_is_refused_as_a_whole(
    edge: Edge, body: bytes, status: int, code: str
) -> None:
    good = msgspec.json.encode(intent())

    answer = await edge.http.post(
        BATCH, content=body.replace(b"%b", good), headers=await edge.key(Role.PRODUCER)
    )

    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert await edge.pool.fetchval("select count(*) from notifications") == 0


async def test_only_what_is_wrong_beside_the_items_is_named(edge: Edge) -> None:
    body = {"notifications": [intent("a"), intent("b")], "x": 1}

    answer = await edge.http.post(BATCH, json=body, headers=await edge.key(Role.PRODUCER))

    assert (answer.status_code, faults(answer)) == (422, {"x": "unknown"})
