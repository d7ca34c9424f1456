"""A campaign is stopped: notifications cancelled by query, and what a toggle held discarded."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import httpx
import pytest

from tests.edges.edge import Edge, faults
from tests.rows import NOW, add_delivery, add_held, add_notification, delivery
from tocsin.api.auth.roles import Role
from tocsin.domain.ids import first_id_at, new_lease_id
from tocsin.engine.clock import utc_now
from tocsin.engine.settle import cancelling
from tocsin.engine.toggles import held

PATH = "/v1/admin/notifications/cancel"


async def add_waiting(edge: Edge, **changes: Any) -> UUID:
    names = ("id", "type", "producer", "idempotency_key", "accepted_at")
    notification = {name: changes.pop(name) for name in names if name in changes}
    made = await add_notification(edge.pool, **{"accepted_at": utc_now()} | notification)
    return await add_delivery(edge.pool, notification_id=made, **changes)


async def cancel(edge: Edge, headers: dict[str, str], **body: Any) -> httpx.Response:
    return await edge.http.post(PATH, json=body, headers=headers)


async def states(edge: Edge, *ids: UUID) -> list[str]:
    return [(await delivery(edge.pool, each))["state"] for each in ids]


async def test_a_campaign_is_counted_then_cancelled_and_what_is_in_flight_counted_apart(edge: Edge) -> None:
    operator = await edge.key(Role.OPERATOR, "night-shift")
    due = await add_waiting(edge, type="offer")
    later = await add_waiting(edge, type="offer", state="scheduled")
    retried = await add_waiting(edge, type="offer", state="retrying")
    lease = {"lease": new_lease_id(), "leased_until": utc_now() + timedelta(minutes=1)}
    flying = await add_waiting(edge, type="offer", **lease)
    sent = await add_waiting(edge, type="offer", state="sent", settled_at=NOW)
    other = await add_waiting(edge, type="receipt")
    everything = due, later, retried, flying, sent, other

    dry = await cancel(edge, operator, filter={"type": "offer"}, dry_run=True)
    before = await states(edge, *everything)
    done = await cancel(edge, operator, filter={"type": "offer"})
    again = await cancel(edge, operator, filter={"type": "offer"})

    counts = {"matched": 3, "in_flight": 1, "next_cursor": None}
    assert (dry.status_code, dry.json()) == (200, counts | {"cancelled": 0})
    assert before == ["pending", "scheduled", "retrying", "pending", "sent", "pending"]
    assert (done.status_code, done.json()) == (200, counts | {"cancelled": 3})
    assert again.json() == counts | {"matched": 0, "cancelled": 0}
    assert await states(edge, *everything) == [*["cancelled"] * 3, "pending", "sent", "pending"]
    row = await delivery(edge.pool, due)
    assert (row["reason"], row["settled_at"] is not None) == ("cancelled_by_operator", True)
    assert "cancelled by night-shift (key " in row["decisions"]
    marked = "select count(*) from notifications where cancelled_at is not null"
    # That of the one in flight is marked too: if it fails, it is not tried again.
    assert await edge.pool.fetchval(marked) == 4
    entries = (await edge.http.get("/v1/admin/audit", headers=operator)).json()["entries"]
    assert [(entry["action"], entry["subject"], entry["details"]["cancelled"]) for entry in entries] == [
        ("notifications.cancel", "type:offer", 0),
        ("notifications.cancel", "type:offer", 3),
    ]


@pytest.mark.parametrize(
    "given",
    [
        {"producer": "mill"},
        {"key_prefix": "spring-"},
        {"to": "2026-02-01T00:00:00Z"},
        {"from": "2026-01-01T00:00:00Z", "to": "2026-02-01T00:00:00Z", "producer": "mill"},
    ],
)
async def test_only_what_matches_is_cancelled(edge: Edge, given: dict[str, str]) -> None:
    old = NOW.replace(month=1)
    made = UUID(int=first_id_at(old).int | 7 << 76 | 2 << 62)
    bad = await add_waiting(edge, id=made, producer="mill", idempotency_key="spring-1", accepted_at=old)
    good = await add_waiting(edge)

    answer = await cancel(edge, await edge.key(Role.OPERATOR), filter=given)

    assert answer.json()["cancelled"] == 1
    assert await states(edge, bad, good) == ["cancelled", "pending"]


async def test_many_are_counted_and_cancelled_in_chunks_and_calls(
    edge: Edge, monkeypatch: pytest.MonkeyPatch
) -> None:
    operator = await edge.key(Role.OPERATOR)
    ids = [await add_waiting(edge, type="offer") for _ in range(7)]
    for name, value in {"NOTIFICATIONS": 6, "COUNTED": 3, "DELIVERIES": 2, "BUDGET": 0.0}.items():
        monkeypatch.setattr(cancelling, name, value)

    async def calls(*, dry_run: bool) -> list[dict[str, Any]]:
        wanted: dict[str, Any] = {"filter": {"type": "offer"}, "dry_run": dry_run}
        answers = [(await cancel(edge, operator, **wanted)).json()]
        while cursor := answers[-1]["next_cursor"]:
            answers.append((await cancel(edge, operator, **wanted, cursor=cursor)).json())
        return answers

    # A call whose time is over ends after a chunk, within what it found and within what it counted of that.
    assert [answer["matched"] for answer in await calls(dry_run=True)] == [2, 2, 2, 1, 0]
    assert [answer["cancelled"] for answer in await calls(dry_run=False)] == [2, 2, 2, 1, 0]
    assert await states(edge, *ids) == ["cancelled"] * 7
    # A transaction each, the newest first.
    details = await edge.pool.fetch("select details->>'cancelled' as count from audit order by id")
    assert [row["count"] for row in details] == ["2", "2", "2", "1"]
    # Nothing waits of what is looked at once more.
    assert [answer["matched"] for answer in await calls(dry_run=True)] == [0, 0, 0, 0]


async def test_a_careless_request_is_refused(edge: Edge) -> None:
    operator = await edge.key(Role.OPERATOR)
    await add_waiting(edge)

    everything = await cancel(edge, operator, filter={})
    unknown = await cancel(edge, operator, filter={"state": "sent", "type": ""}, cursor="x")
    turned = await cancel(
        edge, operator, filter={"from": "2026-02-01T00:00:00Z", "to": "2026-01-01T00:00:00Z"}
    )

    assert (everything.status_code, faults(everything)) == (422, {"filter": "missing"})
    assert faults(unknown) == {"filter.state": "unknown", "filter.type": "invalid", "cursor": "invalid"}
    assert faults(turned) == {"filter.to": "out_of_range"}
    assert await edge.pool.fetchval("select count(*) from deliveries where state = 'pending'") == 1


@pytest.mark.parametrize(
    ("role", "status"),
    [(Role.PRODUCER, 403), (Role.VIEWER, 403), (Role.OPERATOR, 200), (Role.ADMIN, 200)],
)
async def test_who_may_cancel_by_query(edge: Edge, role: Role, status: int) -> None:
    assert (await cancel(edge, await edge.key(role), filter={"type": "x"})).status_code == status
    assert (await cancel(edge, {}, filter={"type": "x"})).status_code == 401


async def test_what_a_toggle_held_is_discarded(edge: Edge, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held, "DISCARDED_AT_ONCE", 2)
    operator = await edge.key(Role.OPERATOR)
    path = "/v1/admin/toggles/type:offer"
    await edge.http.put(path, json={"enabled": False, "reason": "wrong text"}, headers=operator)
    bad = [await add_held(edge.pool, "type:offer") for _ in range(5)]
    other = await add_held(edge.pool, "type:receipt")

    answer = await edge.http.put(path, json={"enabled": True, "discard": True}, headers=operator)

    assert answer.status_code == 200
    switched = answer.json()
    assert (switched["enabled"], switched["discarded"], switched["held"]["count"]) == (True, 5, 0)
    assert await states(edge, *bad, other) == [*["cancelled"] * 5, "scheduled"]
    assert (await delivery(edge.pool, bad[0]))["reason"] == "cancelled_by_operator"
    entries = (await edge.http.get("/v1/admin/audit", headers=operator)).json()["entries"]
    discards = [entry["details"] for entry in entries if entry["action"] == "toggle.discard"]
    assert discards == [{"cancelled": 1}, {"cancelled": 2}, {"cancelled": 2}]
    assert "toggle.on" in {entry["action"] for entry in entries}


async def test_a_toggle_that_held_too_many_for_one_call_stays_off(
    edge: Edge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(held, "DISCARDED_AT_ONCE", 1)
    monkeypatch.setattr(held, "DISCARD_SECONDS", 0.0)
    operator = await edge.key(Role.OPERATOR)
    await edge.http.put("/v1/admin/toggles/channel:push", json={"enabled": False}, headers=operator)
    for _ in range(2):
        await add_held(edge.pool, "channel:push")

    body = {"enabled": True, "discard": True}
    answer = await edge.http.put("/v1/admin/toggles/channel:push", json=body, headers=operator)

    switched = answer.json()
    assert (switched["enabled"], switched["discarded"], switched["held"]["count"]) == (False, 1, 1)


async def test_only_a_type_or_a_channel_that_is_switched_on_can_be_discarded(edge: Edge) -> None:
    operator = await edge.key(Role.OPERATOR)
    toggles = "/v1/admin/toggles"

    off = await edge.http.put(f"{toggles}/type:a", json={"enabled": False, "discard": True}, headers=operator)
    provider = await edge.http.put(
        f"{toggles}/provider:fcm", json={"enabled": True, "discard": True}, headers=operator
    )

    assert (off.status_code, faults(off)) == (422, {"discard": "invalid"})
    assert (provider.status_code, faults(provider)) == (422, {"discard": "invalid"})
    assert await edge.pool.fetchval("select count(*) from toggles") == 0
