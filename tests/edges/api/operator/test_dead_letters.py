"""Dead letters over HTTP: listed by cause, exported, replayed and stopped."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import httpx
import pytest

from tests.edges.edge import Edge, faults
from tests.rows import NOW, add_delivery, add_notification, delivery
from tocsin.api.auth.roles import Role
from tocsin.domain.ids import uuid7
from tocsin.engine.settle.replays import run_batch
from tocsin.store.dead_letters import replays

PATH = "/v1/admin/dead-letters"


async def add_dead(edge: Edge, **changes: Any) -> UUID:
    notification = {
        name: changes.pop(name) for name in ("type", "producer", "idempotency_key") if name in changes
    }
    row: dict[str, Any] = {
        "notification_id": await add_notification(edge.pool, **notification),
        "state": "dead",
        "provider": "fcm",
        "last_error_code": "UNAVAILABLE",
        "last_error": "try later",
        "settled_at": NOW,
    }
    return await add_delivery(edge.pool, **row | changes)


async def listed(edge: Edge, **query: Any) -> dict[str, Any]:
    answer = await edge.http.get(PATH, params=query, headers=await edge.key(Role.VIEWER))
    assert answer.status_code == 200, answer.text
    page: dict[str, Any] = answer.json()
    return page


async def replay(edge: Edge, headers: dict[str, str], **body: Any) -> httpx.Response:
    return await edge.http.post(f"{PATH}/replay", json=body, headers=headers)


async def test_dead_letters_are_grouped_by_cause(edge: Edge) -> None:
    assert await listed(edge) == {"groups": [], "truncated": False}
    await add_dead(edge, settled_at=NOW - timedelta(hours=1))
    newest = await add_dead(edge, user_id=None, address="ada@example.org", channel="email")
    await add_dead(edge, state="gone", last_error_code="UNREGISTERED")
    await add_dead(edge, state="rejected", provider=None, last_error_code=None, type="offer")
    await add_dead(edge, state="sent")

    first, *others = (await listed(edge))["groups"]

    example = first.pop("example")
    assert first == {
        "state": "dead",
        "code": "UNAVAILABLE",
        "provider": "fcm",
        "type": "new_customer",
        "count": 2,
        "oldest": "2026-03-01T11:00:00Z",
        "recovery_hint": "FCM is overloaded. Once the cause is fixed: `tocsin dead replay --state dead --code"
        " UNAVAILABLE --provider fcm --type new_customer`, or a new intent with a new key.",
    }
    assert (example["delivery_id"], example["recipient"]) == (str(newest), "email:a***@example.org")
    assert (example["error"], example["settled_at"]) == ("try later", "2026-03-01T12:00:00Z")
    assert "tocsin dead replay" in example["hint"]
    assert [(group["state"], group["code"], group["type"], group["count"]) for group in others] == [
        ("gone", "UNREGISTERED", "new_customer", 1),
        ("rejected", None, "offer", 1),
    ]


@pytest.mark.parametrize(
    "query",
    [
        {"state": "gone"},
        {"code": "UNREGISTERED"},
        {"type": "offer"},
        {"producer": "mill", "from": "2020-01-01T00:00:00Z"},
        {"key_prefix": "spring-"},
        {"user": "bob", "channel": "push", "provider": "apns"},
    ],
)
async def test_they_are_filtered_as_search_does(edge: Edge, query: dict[str, str]) -> None:
    await add_dead(edge)
    await add_dead(
        edge,
        user_id="bob",
        state="gone",
        last_error_code="UNREGISTERED",
        provider="apns",
        type="offer",
        producer="mill",
        idempotency_key="spring-1",
    )

    (group,) = (await listed(edge, **query))["groups"]

    assert (group["type"], group["count"]) == ("offer", 1)


async def test_they_are_exported_page_by_page_without_addresses(edge: Edge) -> None:
    dead = [await add_dead(edge, user_id=f"user{number}") for number in range(3)]
    mail = await add_dead(edge, user_id=None, address="ada@example.org", state="rejected")
    headers = await edge.key(Role.VIEWER)
    pages: list[dict[str, Any]] = []
    after: str | None = str(UUID(int=0))
    while after:
        query: dict[str, str] = {"limit": "2", "after": after}
        pages.append((await edge.http.get(f"{PATH}/export", params=query, headers=headers)).json())
        after = pages[-1]["next"]

    rows = [row for page in pages for row in page["dead_letters"]]

    assert [row["delivery_id"] for row in rows] == [str(each) for each in (*dead, mail)]
    assert rows[0]["payload"] == {"customer_name": "Ali Veli"}
    assert [f"`tocsin dead replay {row['delivery_id']}`" in row["recovery_hint"] for row in rows] == [
        True
    ] * 4
    assert (rows[0]["recipient"], rows[-1]["recipient"]) == ("user:user0", "email:a***@example.org")
    assert "ada@example.org" not in str(pages)
    some = await edge.http.get(f"{PATH}/export", params={"state": "rejected"}, headers=headers)
    assert [row["delivery_id"] for row in some.json()["dead_letters"]] == [str(mail)]


async def test_a_replay_is_started_shown_stopped_and_audited(edge: Edge) -> None:
    operator = await edge.key(Role.OPERATOR, "night-shift")
    for _ in range(3):
        await add_dead(edge)
    await add_dead(edge, state="gone")

    dry = await replay(edge, operator, filter={"state": "dead"}, dry_run=True)
    started = await replay(edge, operator, filter={"state": "dead"}, rate=10, force=True)

    assert (dry.status_code, dry.json()) == (
        200,
        {"replay_id": None, "matched": {"count": 3, "or_more": False}},
    )
    assert started.status_code == 202
    replay_id = started.json()["replay_id"]
    shown = (await edge.http.get(f"/v1/admin/replays/{replay_id}", headers=operator)).json()
    assert {name: shown[name] for name in ("state", "filter", "rate", "force", "replayed", "left_out")} == {
        "state": "running",
        "filter": {"state": "dead"},
        "rate": 10,
        "force": True,
        "replayed": 0,
        "left_out": {},
    }
    assert shown["matched"] == {"count": 3, "or_more": False}
    assert (await edge.http.get("/v1/admin/replays", headers=operator)).json() == {
        "replays": [shown],
        "next": None,
    }

    stop = f"/v1/admin/replays/{replay_id}/stop"
    stopped = await edge.http.post(stop, headers=operator)
    again = await edge.http.post(stop, headers=operator)

    assert (stopped.status_code, stopped.json()["state"], again.status_code) == (200, "stopped", 404)
    assert stopped.json()["stopped_by"].startswith("night-shift (key ")
    audit = (await edge.http.get("/v1/admin/audit", headers=operator)).json()["entries"]
    assert [(entry["action"], entry["subject"]) for entry in audit] == [
        ("dead_letters.stop_replay", f"replay:{replay_id}"),
        ("dead_letters.replay", f"replay:{replay_id}"),
    ]
    assert audit[1]["details"] == {"filter": {"state": "dead"}, "rate": 10, "force": True, "matched": 3}


async def test_some_are_chosen_by_their_ids(edge: Edge) -> None:
    operator = await edge.key(Role.OPERATOR)
    first, left, last = [await add_dead(edge) for _ in range(3)]
    alive = await add_dead(edge, state="sent")
    ids = [str(each) for each in (last, first, alive)]

    dry = await replay(edge, operator, filter={"delivery_ids": ids}, dry_run=True)
    started = await replay(edge, operator, filter={"delivery_ids": ids})
    listed = await edge.http.get(f"{PATH}/export", params={"delivery_ids": ids}, headers=operator)

    assert dry.json()["matched"] == {"count": 2, "or_more": False}
    assert [row["delivery_id"] for row in listed.json()["dead_letters"]] == [str(first), str(last)]
    row = await replays.get(edge.pool, UUID(started.json()["replay_id"]))
    assert row is not None
    async with edge.pool.acquire() as connection, connection.transaction():
        await run_batch(connection, row, NOW)
    states = {each: (await delivery(edge.pool, each))["state"] for each in (first, left, last, alive)}
    assert states == {first: "pending", left: "dead", last: "pending", alive: "sent"}


@pytest.mark.parametrize("ids", [[], ["no id"], [str(uuid7()) for _ in range(501)], None])
async def test_a_choice_of_none_is_not_a_choice_of_all(edge: Edge, ids: list[str] | None) -> None:
    operator = await edge.key(Role.OPERATOR)
    await add_dead(edge)

    answer = await replay(edge, operator, filter={"delivery_ids": ids})

    if ids is None:
        # As if it was left out.
        assert answer.status_code == 202
        return
    assert answer.status_code == 422
    assert list(faults(answer)) == ["filter.delivery_ids[0]" if ids == ["no id"] else "filter.delivery_ids"]
    assert await edge.pool.fetchval("select count(*) from replays") == 0


async def test_the_same_request_with_an_idempotency_key_makes_one_replay(edge: Edge) -> None:
    operator = await edge.key(Role.OPERATOR)
    await add_dead(edge)

    first = await replay(edge, operator, filter={"type": "new_customer"}, idempotency_key="k")
    second = await replay(edge, operator | {"Idempotency-Key": "k"}, filter={"type": "new_customer"})
    other = await replay(edge, operator, filter={"type": "offer"}, idempotency_key="k")
    crossed = await replay(edge, operator | {"Idempotency-Key": "k"}, filter={}, idempotency_key="l")

    assert first.json() == second.json()
    assert (other.status_code, other.json()["code"]) == (409, "idempotency_conflict")
    assert faults(crossed) == {"idempotency_key": "contradicts_header"}
    assert await edge.pool.fetchval("select count(*) from replays") == 1
    assert await edge.pool.fetchval("select count(*) from audit") == 1


async def test_a_wrong_request_is_refused_with_every_fault(edge: Edge) -> None:
    operator = await edge.key(Role.OPERATOR)

    missing = await replay(edge, operator)
    wrong = await replay(
        edge, operator, filter={"state": "sent!", "user": "a\nb", "huh": 1}, rate=0, force="yes"
    )
    alive = await replay(edge, operator, filter={"state": "sent", "from": "0001-01-01T00:00:00Z"})
    query = await edge.http.get(PATH, params={"state": "sent", "limit": "1"}, headers=operator)
    living = await edge.http.get(PATH, params={"state": "sent"}, headers=operator)

    assert faults(missing) == {"filter": "missing"}
    assert faults(wrong) == {
        "filter.state": "invalid",
        "filter.user": "invalid",
        "filter.huh": "unknown",
        "rate": "invalid",
        "force": "invalid",
    }
    assert faults(alive) == {"filter.state": "invalid", "filter.from": "out_of_range"}
    assert (query.status_code, faults(query)) == (422, {"limit": "unknown"})
    assert (living.status_code, faults(living)) == (422, {"state": "invalid"})
    assert await edge.pool.fetchval("select count(*) from replays") == 0


@pytest.mark.parametrize(
    ("role", "sees", "replays"),
    [(Role.PRODUCER, 403, 403), (Role.VIEWER, 200, 403), (Role.OPERATOR, 200, 202), (Role.ADMIN, 200, 202)],
)
async def test_who_may_see_and_who_may_replay(edge: Edge, role: Role, sees: int, replays: int) -> None:
    headers = await edge.key(role)

    for path in (PATH, f"{PATH}/export", "/v1/admin/replays"):
        assert (await edge.http.get(path, headers=headers)).status_code == sees
        assert (await edge.http.get(path)).status_code == 401
    assert (await replay(edge, headers, filter={})).status_code == replays
    stopped = await edge.http.post(f"/v1/admin/replays/{uuid7()}/stop", headers=headers)
    assert stopped.status_code == (404 if replays == 202 else 403)
