"""The audit as an operator reads it, over HTTP and by the command line."""

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.edges.command_line import run
from tests.edges.edge import Edge, faults
from tocsin.api.auth.roles import Role
from tocsin.engine.clock import utc_now
from tocsin.store import audit, toggles

PATH = "/v1/admin/audit"


async def listed(edge: Edge, **query: Any) -> dict[str, Any]:
    answer = await edge.http.get(PATH, params=query, headers=await edge.key(Role.OPERATOR))
    assert answer.status_code == 200, answer.text
    page: dict[str, Any] = answer.json()
    return page


async def subjects(edge: Edge, **query: Any) -> list[str]:
    return [entry["subject"] for entry in (await listed(edge, **query))["entries"]]


async def act(edge: Edge, subject: str, *, action: str = "user.erase", actor: str = "ada") -> None:
    await audit.record(edge.pool, actor=actor, action=action, subject=subject, details={"devices": 2})


async def test_what_was_done_is_listed_newest_first_with_the_toggles(edge: Edge) -> None:
    await act(edge, "user:1")
    async with edge.pool.acquire() as connection:
        await toggles.change(
            connection, "type:offer", enabled=False, reason="wrong text", by="grace", now=utc_now()
        )
    await act(edge, "user:2")

    newest, toggle, oldest = (await listed(edge))["entries"]

    assert (newest["subject"], oldest["subject"]) == ("user:2", "user:1")
    assert (newest["actor"], newest["action"], newest["details"]) == ("ada", "user.erase", {"devices": 2})
    assert newest["at"] > oldest["at"]
    del toggle["audit_id"], toggle["at"]
    assert toggle == {
        "actor": "grace",
        "action": "toggle.off",
        "subject": "type:offer",
        "details": {"was_enabled": True, "reason": "wrong text"},
    }


async def test_it_is_filtered_and_read_in_pages(edge: Edge) -> None:
    for number in range(3):
        await act(edge, f"user:{number}", actor="ada" if number else "grace")
    await act(edge, "user:1", action="user.export")
    times = [entry["at"] for entry in (await listed(edge))["entries"]]

    assert await subjects(edge, actor="grace") == ["user:0"]
    assert await subjects(edge, action="user.erase") == ["user:2", "user:1", "user:0"]
    assert len(await subjects(edge, subject="user:1")) == 2
    assert await subjects(edge, **{"from": times[1]}) == ["user:1", "user:2"]
    assert await subjects(edge, to=times[1]) == ["user:1", "user:0"]
    assert await subjects(edge, subject="user:1", to=times[0], **{"from": times[3]}) == ["user:1"]
    far = {"from": "1900-01-01T00:00:00Z", "to": "9998-12-31T23:59:59Z"}
    assert len(await subjects(edge, **far)) == 4

    first = await listed(edge, limit=2)
    second = await listed(edge, limit=2, before=first["next"])
    assert [entry["at"] for entry in first["entries"] + second["entries"]] == times


async def test_it_lasts_only_with_the_change_that_it_describes(edge: Edge) -> None:
    async with edge.pool.acquire() as connection:
        undone = connection.transaction()
        await undone.start()
        await audit.record(connection, actor="ada", action="user.erase", subject="user:1")
        await undone.rollback()

    assert await subjects(edge) == []


async def test_a_wrong_query_is_refused_with_every_fault(edge: Edge) -> None:
    query = {"action": "", "actor": "x" * 701, "subject": "a\0b", "from": "yesterday", "to": "2026-01-01"}
    headers = await edge.key(Role.ADMIN)

    wrong = await edge.http.get(PATH, params={**query, "user": "1"}, headers=headers)
    outside = await edge.http.get(PATH, params={"from": "0001-01-01T00:00:00+14:00"}, headers=headers)

    assert (wrong.status_code, faults(wrong)) == (422, dict.fromkeys(query, "invalid") | {"user": "unknown"})
    assert (outside.status_code, faults(outside)) == (422, {"from": "out_of_range"})


@pytest.mark.parametrize(
    ("role", "status"),
    [(Role.PRODUCER, 403), (Role.VIEWER, 403), (Role.OPERATOR, 200), (Role.ADMIN, 200)],
)
async def test_who_may_see_it(edge: Edge, role: Role, status: int) -> None:
    assert (await edge.http.get(PATH, headers=await edge.key(role))).status_code == status
    assert (await edge.http.get(PATH)).status_code == 401


async def test_the_command_line_lists_it_by_database_and_over_http(
    edge: Edge, database_url: str, tmp_path: Path
) -> None:
    for number in range(102):
        await act(edge, f"user:{number}")
    key = (await edge.key(Role.OPERATOR))["Authorization"].removeprefix("Bearer ")
    by_database = {"TOCSIN_DATABASE_URL": database_url, "COLUMNS": "200"}
    by_http = {"TOCSIN_SERVER": str(edge.http.base_url), "TOCSIN_KEY": key}
    tomorrow = (utc_now() + timedelta(days=1)).isoformat()

    async def command(environment: dict[str, str], *arguments: str) -> Any:
        return await asyncio.to_thread(run, ["audit", *arguments], environment, tmp_path)

    shown = await command(by_database, "--limit", "1")
    every = await command(by_database, "--limit", "200", "--json")
    fetched = await command(by_http, "--limit", "101", "--json", "--actor", "ada", "--to", tomorrow)
    none = await command(by_http, "--from", tomorrow)
    wrong = await command(by_database, "--from", "yesterday")

    assert shown.said.split("Z", 1)[1] == " user.erase user:101 by ada devices=2"
    assert len(every.json) == 102
    assert fetched.json == every.json[:101]
    assert none.out == "The audit has no such entry.\n"
    assert (wrong.code, "--from" in wrong.err) == (2, True)
