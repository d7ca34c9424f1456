"""Periodic producers over HTTP."""

from datetime import timedelta
from typing import Any

import pytest

from tests.edges.edge import Edge, faults
from tocsin.api.auth.roles import Role
from tocsin.domain.timing.schedule import Schedule
from tocsin.engine.clock import utc_now
from tocsin.store.sources import progress
from tocsin.store.sources.progress import Scheduled

PATH = "/v1/admin/progress"


async def known(
    edge: Edge, name: str = "new_customers", late: timedelta = timedelta(hours=-1), **changes: Any
) -> None:
    now = utc_now()
    fields: dict[str, Any] = {
        "name": name,
        "kind": "scan",
        "schedule": Schedule("*/15 * * * *", "Europe/Istanbul"),
        "value_type": "bigint",
        "initial": 7,
    }
    await progress.register(edge.pool, Scheduled(**fields | changes), next_run_at=now - late, now=now)


async def test_producers_are_listed(edge: Edge) -> None:
    await known(edge)

    answer = await edge.http.get(PATH, headers=await edge.key(Role.VIEWER))

    assert answer.status_code == 200
    [shown] = answer.json()["producers"]
    assert shown.pop("next_run_at") is not None
    assert shown == {
        "name": "new_customers",
        "kind": "scan",
        "state": "idle",
        "schedule": "*/15 * * * *",
        "timezone": "Europe/Istanbul",
        "catch_up": "last",
        "checkpoint": 7,
        "run_requested": False,
        "late_seconds": 0.0,
        "last_run_at": None,
        "last_success_at": None,
        "failures": 0,
        "last_error": None,
        "note": None,
        "accepted": 0,
        "duplicates": 0,
        "refused": 0,
    }


@pytest.mark.parametrize(
    ("change", "state"),
    [
        ("seen_at = now() - interval '1 hour'", "unknown"),
        ("status = 'running', leased_until = now() - interval '1 second'", "interrupted"),
        ("status = 'running', leased_until = now() + interval '1 minute'", "running"),
    ],
)
async def test_a_silent_stall_shows(edge: Edge, change: str, state: str) -> None:
    await known(edge, late=timedelta(minutes=5))
    # The changes are written above.
    await edge.pool.execute(f"update progress set {change}")  # noqa: S608

    answer = await edge.http.get(PATH, headers=await edge.key(Role.VIEWER))

    [shown] = answer.json()["producers"]
    assert shown["state"] == state
    assert shown["late_seconds"] == (0 if state == "running" else pytest.approx(300, abs=20))


async def test_a_run_is_asked_for(edge: Edge) -> None:
    await known(edge)

    answer = await edge.http.post(f"{PATH}/new_customers/run", headers=await edge.key(Role.OPERATOR))

    assert (answer.status_code, answer.json()["run_requested"]) == (202, True)
    assert await edge.pool.fetchval("select run_requested_at from progress") is not None


async def test_a_checkpoint_is_set(edge: Edge) -> None:
    await known(edge)

    answer = await edge.http.post(
        f"{PATH}/new_customers/rewind", json={"to": 3}, headers=await edge.key(Role.OPERATOR)
    )

    assert (answer.status_code, answer.json()["checkpoint"]) == (200, 3)
    [row] = await edge.pool.fetch("select actor, action, subject, details::text from audit")
    assert (row["action"], row["subject"], row["details"]) == (
        "progress.rewind",
        "progress:new_customers",
        '{"to": "3"}',
    )
    assert row["actor"].startswith("billing (key ")


@pytest.mark.parametrize(
    ("body", "field"), [({"to": "soon"}, "to"), ({}, "to"), ({"to": 1, "from": 2}, "from")]
)
async def test_a_wrong_checkpoint_is_refused(edge: Edge, body: dict[str, Any], field: str) -> None:
    await known(edge)

    answer = await edge.http.post(
        f"{PATH}/new_customers/rewind", json=body, headers=await edge.key(Role.OPERATOR)
    )

    assert answer.status_code == 422
    assert set(faults(answer)) == {field}
    assert await edge.pool.fetchval("select last_value from progress") == "7"


async def test_what_is_not_there_is_told_with_what_is(edge: Edge) -> None:
    await known(edge)
    headers = await edge.key(Role.OPERATOR)

    for call, body in (("run", None), ("rewind", {"to": 1})):
        answer = await edge.http.post(f"{PATH}/nobody/{call}", json=body, headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
        assert "there are new_customers" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("role", "sees", "runs"),
    [(Role.PRODUCER, 403, 403), (Role.VIEWER, 200, 403), (Role.OPERATOR, 200, 202), (Role.ADMIN, 200, 202)],
)
async def test_who_may_see_and_who_may_run(edge: Edge, role: Role, sees: int, runs: int) -> None:
    await known(edge)
    headers = await edge.key(role)

    assert (await edge.http.get(PATH, headers=headers)).status_code == sees
    assert (await edge.http.post(f"{PATH}/new_customers/run", headers=headers)).status_code == runs
    rewound = await edge.http.post(f"{PATH}/new_customers/rewind", json={"to": 1}, headers=headers)
    assert rewound.status_code == (200 if runs == 202 else runs)
    assert (await edge.http.get(PATH)).status_code == 401
