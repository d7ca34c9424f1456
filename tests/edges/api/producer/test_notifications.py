import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import httpx
import pytest

from tests.edges.api.producer.posting import BATCH, POST, intent, refused_codes
from tests.edges.edge import Edge, faults
from tocsin.api.auth.roles import Role


async def test_an_intent_is_accepted_once(edge: Edge) -> None:
    headers = await edge.key(Role.PRODUCER)

    first = await edge.http.post(POST, json=intent(), headers=headers)
    second = await edge.http.post(POST, json=intent(trace_id="other"), headers=headers)

    assert (first.status_code, first.json()["status"]) == (202, "accepted")
    assert (second.status_code, second.json()["status"]) == (202, "duplicate")
    assert first.json()["notification_id"] == second.json()["notification_id"]
    assert await edge.pool.fetchval("select count(*) from notifications") == 1


async def test_the_same_key_with_other_content_is_a_conflict_and_recorded(edge: Edge) -> None:
    headers = await edge.key(Role.PRODUCER)
    first = await edge.http.post(POST, json=intent(), headers=headers)

    answer = await edge.http.post(
        POST, json=intent(payload={"customer_name": "Someone else"}), headers=headers
    )

    assert (answer.status_code, answer.json()["code"]) == (409, "idempotency_conflict")
    assert answer.json()["notification_id"] == first.json()["notification_id"]
    assert await refused_codes(edge) == ["idempotency_conflict"]


async def test_two_producers_may_use_the_same_key(edge: Edge) -> None:
    for producer in ("billing", "crm"):
        answer = await edge.http.post(POST, json=intent(), headers=await edge.key(Role.PRODUCER, producer))
        assert answer.json()["status"] == "accepted"


async def test_every_fault_of_the_shape_is_named_and_recorded(edge: Edge) -> None:
    body = {
        "type": 7,
        "audience": {"users": ["ada", "", {"a": 1}], "phones": []},
        "payload": [],
        "send_at": "tomorrow",
        "ttl_seconds": 0,
        "colour": "red",
    }

    answer = await edge.http.post(POST, json=body, headers=await edge.key(Role.PRODUCER))

    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_intent")
    assert faults(answer) == {
        "type": "invalid",
        "audience.users[1]": "invalid",
        "audience.users[2]": "invalid",
        "audience.phones": "unknown",
        "payload": "invalid",
        "idempotency_key": "missing",
        "send_at": "invalid",
        "ttl_seconds": "invalid",
        "colour": "unknown",
    }
    assert await refused_codes(edge) == ["invalid_intent"]


async def test_faults_of_meaning_are_named_too(edge: Edge) -> None:
    answer = await edge.http.post(
        POST,
        json=intent(audience={}, payload={"customer_name": ""}),
        headers=await edge.key(Role.PRODUCER),
    )

    assert answer.status_code == 422
    assert {field.split(".")[0] for field in faults(answer)} == {"audience", "payload"}


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"", 400, "malformed_json"),
        (b"{", 400, "malformed_json"),
        (b'{"type": "\xff"}', 400, "malformed_json"),
        (b'{"type": "\\ud800"}', 400, "malformed_json"),
        (b"[" * 100_000, 422, "invalid_intent"),
        (b'{"payload": ' + b'{"a": ' * 900 + b"1" + b"}" * 901, 422, "invalid_intent"),
        (b'{"type": "a\\u0000", "payload": {"\\u0000": ["\\u0000"]}}', 422, "invalid_intent"),
        (b'{"\\u0000": 1}', 422, "invalid_intent"),
        (b"[]", 422, "invalid_intent"),
        (b"null", 422, "invalid_intent"),
        (b'"text"', 422, "invalid_intent"),
    ],
    ids=[
        "empty",
        "truncated",
        "not utf-8",
        "lone surrogate",
        "deep",
        "rather deep",
        "nul",
        "nul as a name",
        "a list",
        "null",
        "text",
    ],
)
async def test_hostile_bodies_are_the_callers_fault(edge: Edge, body: bytes, status: int, code: str) -> None:
    answer = await edge.http.post(POST, content=body, headers=await edge.key(Role.PRODUCER))

    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize("value", [2**53, -(2**70), 1e300, "a\\u0000b", "\U0001f600", "\\"])
async def test_odd_payload_values_never_fail_the_server(edge: Edge, value: object) -> None:
    body = intent(payload={"customer_name": "Ali", "customer_id": value})

    answer = await edge.http.post(POST, json=body, headers=await edge.key(Role.PRODUCER))

    assert answer.status_code in {202, 422}


async def test_a_nul_in_any_field_is_named(edge: Edge) -> None:
    body = intent(collapse_key="a\x00b", payload={"customer_name": "\x00"})

    answer = await edge.http.post(POST, json=body, headers=await edge.key(Role.PRODUCER))

    assert faults(answer) == {"collapse_key": "nul_character", "payload.customer_name": "nul_character"}


async def test_a_large_body_is_refused(edge: Edge) -> None:
    body = intent(payload={"customer_name": "x" * 300_000})

    answer = await edge.http.post(POST, json=body, headers=await edge.key(Role.PRODUCER))

    assert (answer.status_code, answer.json()["code"]) == (413, "body_too_large")


async def test_a_large_body_without_a_length_is_refused(edge: Edge) -> None:
    async def chunks() -> Any:
        for _ in range(30):
            yield b" " * 10_000

    answer = await edge.http.post(POST, content=chunks(), headers=await edge.key(Role.PRODUCER))

    assert answer.status_code == 413


async def test_the_key_may_come_in_a_header(edge: Edge) -> None:
    headers = await edge.key(Role.PRODUCER)
    without = {name: value for name, value in intent().items() if name != "idempotency_key"}

    first = await edge.http.post(POST, json=without, headers={**headers, "Idempotency-Key": "k1"})
    same = await edge.http.post(POST, json=intent("k1"), headers={**headers, "Idempotency-Key": "k1"})
    differs = await edge.http.post(POST, json=intent("k1"), headers={**headers, "Idempotency-Key": "k2"})
    wrong = await edge.http.post(POST, json=without, headers={**headers, "Idempotency-Key": "k" * 201})

    assert (first.json()["status"], same.json()["status"]) == ("accepted", "duplicate")
    assert faults(differs) == {"idempotency_key": "contradicts_header"}
    assert faults(wrong) == {"idempotency_key": "invalid"}


async def test_a_batch_answers_each_intent_in_order(edge: Edge) -> None:
    headers = await edge.key(Role.PRODUCER)
    await edge.http.post(POST, json=intent("old"), headers=headers)
    items = [
        intent("new"),
        intent("old"),
        intent("old", payload={"customer_name": "Other"}),
        {"type": "new_customer"},
        intent("late", collapse_key="\x00"),
        7,
        intent("new"),
    ]

    answer = await edge.http.post(BATCH, json={"notifications": items}, headers=headers)

    assert answer.status_code == 200
    results = answer.json()["results"]
    assert [result["status"] for result in results] == [
        "accepted",
        "duplicate",
        "conflict",
        "invalid",
        "invalid",
        "invalid",
        "duplicate",
    ]
    assert results[0]["notification_id"] == results[6]["notification_id"]
    assert {error["field"] for error in results[3]["errors"]} == {"audience", "payload", "idempotency_key"}
    assert sorted(await refused_codes(edge)) == ["idempotency_conflict"] + ["invalid_intent"] * 3


@pytest.mark.parametrize("count", [0, 1_001])
async def test_a_batch_is_bounded(edge: Edge, count: int) -> None:
    answer = await edge.http.post(
        BATCH, json={"notifications": [1] * count}, headers=await edge.key(Role.PRODUCER)
    )

    assert (answer.status_code, faults(answer)) == (422, {"notifications": "invalid"})


async def test_posts_that_come_together_are_each_accepted(edge: Edge) -> None:
    headers = await edge.key(Role.PRODUCER)

    answers = await asyncio.gather(
        *(edge.http.post(POST, json=intent(f"k{number % 25}"), headers=headers) for number in range(50))
    )

    statuses = sorted(answer.json()["status"] for answer in answers)
    assert statuses == ["accepted"] * 25 + ["duplicate"] * 25


async def accepted(edge: Edge, producer: str, key: str = "k1") -> str:
    headers = await edge.key(Role.PRODUCER, producer)
    answer = await edge.http.post(POST, json=intent(key), headers=headers)
    notification_id: str = answer.json()["notification_id"]
    return notification_id


async def see(edge: Edge, notification_id: str, role: Role, producer: str) -> httpx.Response:
    return await edge.http.get(f"{POST}/{notification_id}", headers=await edge.key(role, producer))


async def test_a_notification_is_shown_with_its_deliveries(edge: Edge) -> None:
    notification_id = await accepted(edge, "billing")
    await edge.pool.execute(
        "update deliveries set state = 'dead', attempts = 1, last_error_code = 'UNAVAILABLE'"
    )
    await edge.pool.execute(
        "insert into attempts (delivery_id, outcome, code, detail, at) "
        "select id, 'retry', 'UNAVAILABLE', 'busy', now() from deliveries"
    )

    answer = await see(edge, notification_id, Role.PRODUCER, "billing")

    assert answer.status_code == 200
    shown = answer.json()
    assert (shown["notification_id"], shown["producer"], shown["type"]) == (
        notification_id,
        "billing",
        "new_customer",
    )
    assert shown["payload"] == {"customer_name": "Ali Veli"}
    assert shown["truncated"] is False
    [delivery] = shown["deliveries"]
    assert delivery["route_id"] == "push:user:ada"
    assert (delivery["recipient"], delivery["channel"]) == ("user:ada", "push")
    assert (delivery["state"], delivery["attempt_count"]) == ("dead", 1)
    assert "not tried again" in delivery["hint"]
    assert [(attempt["code"], attempt["detail"]) for attempt in delivery["attempts"]] == [
        ("UNAVAILABLE", "busy")
    ]


async def test_a_silence_is_shown_with_its_reason(edge: Edge) -> None:
    headers = await edge.key(Role.PRODUCER)
    body = intent(audience={"admins": True})
    answer = await edge.http.post(POST, json=body, headers=headers)

    shown = await edge.http.get(f"{POST}/{answer.json()['notification_id']}", headers=headers)

    [delivery] = shown.json()["deliveries"]
    assert (delivery["state"], delivery["reason"]) == ("skipped", "no_admins_configured")
    assert delivery["route_id"] == "email:config:new_customer"
    assert delivery["attempts"] == []


async def test_a_producer_sees_only_its_own(edge: Edge) -> None:
    notification_id = await accepted(edge, "billing")

    seen = {
        (role, producer): (await see(edge, notification_id, role, producer)).status_code
        for role, producer in (
            (Role.PRODUCER, "crm"),
            (Role.OPERATOR, "ops"),
            (Role.VIEWER, "ops"),
            (Role.ADMIN, "ops"),
        )
    }

    assert list(seen.values()) == [404, 200, 200, 200]


@pytest.mark.parametrize("notification_id", ["0199f1a0-0000-7000-8000-000000000000", "nonsense", "%00"])
async def test_an_unknown_notification_is_not_found(edge: Edge, notification_id: str) -> None:
    answer = await see(edge, notification_id, Role.ADMIN, "ops")

    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


async def test_operators_page_through_notifications(edge: Edge) -> None:
    made = [await accepted(edge, "billing", f"k{number}") for number in range(5)]
    headers = await edge.key(Role.VIEWER)
    seen: list[str] = []
    query = "?limit=2"
    while query:
        page = (await edge.http.get(POST + query, headers=headers)).json()
        seen += [found["notification_id"] for found in page["items"]]
        query = f"?limit=2&cursor={page['next_cursor']}" if page["next_cursor"] else ""

    assert seen == made[::-1]
    assert all(UUID(notification_id) for notification_id in seen)


@pytest.mark.parametrize("query", ["?limit=0", "?limit=101", "?limit=x", "?before=x", "?after=1"])
async def test_a_wrong_page_is_refused(edge: Edge, query: str) -> None:
    answer = await edge.http.get(POST + query, headers=await edge.key(Role.VIEWER))

    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_query")


async def test_a_repeated_recipient_is_counted_once_and_told(edge: Edge) -> None:
    headers = await edge.key(Role.PRODUCER)
    users = intent("k1", audience={"users": ["ada", 7, "bob", "ada", "7"]})
    emails = intent("k2", audience={"emails": ["a@Example.org", "a@example.org", "A@example.org"]})

    single = await edge.http.post(POST, json=users, headers=headers)
    batch = await edge.http.post(BATCH, json={"notifications": [emails, intent("k3")]}, headers=headers)

    assert single.json()["repeated_recipients"] == 2
    first, second = batch.json()["results"]
    assert first["repeated_recipients"] == 1
    assert "repeated_recipients" not in second
    assert await edge.pool.fetchval("select count(*) from deliveries where user_id is not null") == 4


async def test_a_notification_that_is_not_due_says_what_it_waits_for(edge: Edge) -> None:
    headers = await edge.key(Role.PRODUCER)
    now = datetime.now(UTC).replace(microsecond=0)
    later, wall = now + timedelta(hours=2), (now + timedelta(hours=2)).replace(tzinfo=None)
    given = [
        intent("at", send_at=later.isoformat()),
        intent("wall", send_at_local=wall.isoformat()),
        intent("now"),
        intent("past", send_at=(now - timedelta(hours=1)).isoformat()),
        intent("skipped", audience={"emails": ["a@example.org"]}, send_at=later.isoformat()),
    ]

    single = await edge.http.post(POST, json=intent("one", send_at=later.isoformat()), headers=headers)
    batch = await edge.http.post(BATCH, json={"notifications": given}, headers=headers)

    assert single.json()["waits_for"] == "send_at"
    assert datetime.fromisoformat(single.json()["waits_until"]) == later
    waits = [(result.get("waits_for"), "waits_until" in result) for result in batch.json()["results"]]
    assert waits == [("send_at", True), ("send_at_local", False), *[(None, False)] * 3]
