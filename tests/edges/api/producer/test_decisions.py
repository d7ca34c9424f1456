from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests import rows
from tests.edges.edge import Edge, running, services
from tocsin.api.auth.roles import Role
from tocsin.store.people import users
from tocsin.store.people.users import UserRow
from tocsin.store.pool import Pool

NIGHT = "2026-11-15T03:00:00Z"
NOON = "2026-11-15T12:00:00Z"


def intent(**changes: Any) -> dict[str, Any]:
    return {
        "type": "new_customer",
        "audience": {"users": ["ada"]},
        "payload": {"customer_name": "Grace"},
        "idempotency_key": str(uuid4()),
    } | changes


async def person(pool: Pool, user_id: str, **fields: Any) -> None:
    known: dict[str, Any] = dict.fromkeys(
        ("email", "locale", "timezone", "gmt_offset_seconds", "allowed_window")
    )
    row = UserRow(user_id=user_id, updated_at=datetime.now(UTC), **known | fields)
    await users.put(pool, [row])


async def ask(edge: Edge, key: dict[str, str], body: dict[str, Any], at: str = NOON) -> httpx.Response:
    return await edge.http.post("/v1/notifications/explain", params={"at": at}, json=body, headers=key)


async def test_explain_tells_when_and_why_and_writes_nothing(pool: Pool) -> None:
    await person(pool, "ada", timezone="Europe/Istanbul")
    await rows.add_device(pool, "ada")
    async with running(services(pool)) as edge:
        key = await edge.key(Role.PRODUCER)

        noon = (await ask(edge, key, intent())).json()["routes"][0]
        night = (await ask(edge, key, intent(), at=NIGHT)).json()["routes"][0]

    assert (noon["outcome"], noon["at"]) == ("sent", NOON)
    assert [device["provider"] for device in noon["devices"]] == ["fcm"]
    assert (night["outcome"], night["at"]) == ("sent", "2026-11-15T06:01:00Z")
    (held,) = [step for step in night["steps"] if step["result"] == "hold"]
    assert held["rule"] == "quiet_hours"
    assert "22:00-09:00 Europe/Istanbul (from the person)" in held["detail"]
    assert await pool.fetchval("select count(*) from notifications") == 0


async def test_explain_names_every_silence(pool: Pool) -> None:
    await rows.add_device(pool, "ada")
    await pool.execute(
        "insert into preferences (user_id, choices, updated_at) "
        "values ('ada', '{\"customers\": {\"push\": false}}', now())"
    )
    async with running(services(pool)) as edge:
        key = await edge.key(Role.PRODUCER)

        answer = await ask(edge, key, intent(audience={"users": ["ada", "nobody"]}))

    reasons = {route["recipient"]: route["reason"] for route in answer.json()["routes"]}
    assert reasons == {"user:ada": "opted_out", "user:nobody": "no_device"}


async def test_the_category_in_a_message_decides_whose_choice_counts(pool: Pool) -> None:
    await rows.add_device(pool, "ada")
    async with running(services(pool)) as edge:
        key = await edge.key(Role.PRODUCER)
        await pool.execute(
            "insert into preferences (user_id, choices, updated_at) "
            "values ('ada', '{\"newComment\": {\"push\": false}}', now())"
        )
        reasons = []
        for category in ({"category": "newComment"}, {"category": "workoutAssigned"}, {}):
            payload = {"title": "Hello", "body": "You have a message."} | category
            answer = await ask(edge, key, intent(type="message", payload=payload))
            reasons += [route["reason"] for route in answer.json()["routes"]]

    assert reasons == ["opted_out", None, None]


async def test_explain_refuses_what_accepting_would_refuse(pool: Pool) -> None:
    async with running(services(pool)) as edge:
        key = await edge.key(Role.PRODUCER)

        answer = await ask(edge, key, intent(payload={}))

        assert answer.status_code == 422
        assert answer.json()["errors"][0]["field"] == "payload.customer_name"
        assert await pool.fetchval("select count(*) from refused_intents") == 0


async def accepted(edge: Edge, key: dict[str, str], **changes: Any) -> str:
    answer = await edge.http.post("/v1/notifications", json=intent(**changes), headers=key)
    notification_id: str = answer.json()["notification_id"]
    return notification_id


@pytest.mark.parametrize("by", ["id", "key"])
async def test_what_waits_can_be_taken_back_once(pool: Pool, by: str) -> None:
    later = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    async with running(services(pool)) as edge:
        key = await edge.key(Role.PRODUCER)
        which = await accepted(edge, key, send_at=later, idempotency_key="take-back")
        path = f"/v1/notifications/{which}/cancel" if by == "id" else "/v1/notifications/cancel"
        body = None if by == "id" else {"idempotency_key": "take-back"}
        headers = key

        first = await edge.http.post(path, json=body, headers=headers)
        second = await edge.http.post(path, json=body, headers=headers)

    assert first.json() == {"notification_id": which, "cancelled": 1}
    assert second.json()["cancelled"] == 0
    assert await pool.fetchval("select state from deliveries") == "cancelled"


async def test_a_notification_can_be_moved(pool: Pool) -> None:
    soon, later = (datetime.now(UTC).replace(microsecond=0) + timedelta(hours=hours) for hours in (1, 5))
    async with running(services(pool)) as edge:
        key = await edge.key(Role.PRODUCER)
        which = await accepted(edge, key, send_at=soon.isoformat())

        answer = await edge.http.post(
            f"/v1/notifications/{which}/reschedule",
            json={"send_at": later.isoformat()},
            headers=key,
        )

    assert answer.json() == {"notification_id": which, "rescheduled": 1}
    assert await pool.fetchval("select due_at from deliveries") == later


@pytest.mark.parametrize("call", ["cancel", "reschedule"])
async def test_nobody_moves_what_is_not_theirs(pool: Pool, call: str) -> None:
    later = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    async with running(services(pool)) as edge:
        which = await accepted(edge, await edge.key(Role.PRODUCER, producer="shop"), send_at=later)
        other = await edge.key(Role.PRODUCER, producer="bank")

        answer = await edge.http.post(
            f"/v1/notifications/{which}/{call}",
            json={"send_at": later} if call == "reschedule" else None,
            headers=other,
        )

    assert answer.status_code == 404
    assert await pool.fetchval("select state from deliveries") == "scheduled"
