import re
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from structlog.testing import capture_logs

from tests.edges.edge import Edge, person, running, services
from tocsin.api.auth.roles import RIGHTS, Right, Role
from tocsin.api.http import problems
from tocsin.api.http.problems import ProblemType
from tocsin.store.pool import Pool

REFERENCE = Path(__file__).parents[3] / "docs" / "reference" / "http.md"


class Failing:
    """Stands for an acceptor whose database or code fails."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    async def accept(self, *_: Any, **__: Any) -> Any:
        raise self._error


async def test_an_unknown_path_is_a_problem(edge: Edge) -> None:
    answer = await edge.http.get("/v2/nothing")

    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json().keys() == {"code", "title", "status", "detail"}


async def test_a_wrong_method_names_the_right_ones(edge: Edge) -> None:
    answer = await edge.http.delete("/v1/notifications/batch")

    assert (answer.status_code, answer.json()["code"]) == (405, "method_not_allowed")
    assert "POST" in answer.headers["allow"]


async def test_our_own_failure_tells_nothing_but_where_to_look(pool: Pool) -> None:
    acceptor = Failing(RuntimeError("the secret inside"))
    async with running(services(pool, acceptor=acceptor)) as edge:
        headers = {**await edge.key(Role.PRODUCER), "X-Request-ID": "find-me"}
        body = {"type": "t", "audience": {"users": ["a"]}, "payload": {}, "idempotency_key": "k"}
        with capture_logs() as logs:
            answer = await edge.http.post("/v1/notifications", json=body, headers=headers)

    assert (answer.status_code, answer.json()["code"]) == (500, "internal_error")
    assert "secret" not in answer.text
    assert "find-me" in answer.json()["detail"]
    assert any(entry.get("exc_info") and entry["request_id"] == "find-me" for entry in logs)


@pytest.mark.parametrize(
    "error", [ConnectionRefusedError(), TimeoutError(), asyncpg.ConnectionDoesNotExistError("gone")]
)
async def test_a_lost_database_asks_the_caller_to_try_again(pool: Pool, error: Exception) -> None:
    async with running(services(pool, acceptor=Failing(error))) as edge:
        body = {"type": "t", "audience": {"users": ["a"]}, "payload": {}, "idempotency_key": "k"}
        answer = await edge.http.post("/v1/notifications", json=body, headers=await edge.key(Role.PRODUCER))

    assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")
    assert answer.headers["retry-after"] == "1"


async def test_the_request_id_is_echoed_or_made(edge: Edge) -> None:
    for path in ("/healthz", "/nowhere"):
        assert (await edge.http.get(path, headers={"X-Request-ID": "r-1"})).headers["x-request-id"] == "r-1"
        made = [(await edge.http.get(path)).headers["x-request-id"] for _ in range(2)]
        assert len(set(made)) == 2
    for odd in ("x" * 129, "a b"):
        answer = await edge.http.get("/healthz", headers={"X-Request-ID": odd})
        assert answer.headers["x-request-id"] != odd


async def test_each_request_is_logged_once_and_nothing_secret_with_it(edge: Edge) -> None:
    headers = person("ada")
    with capture_logs() as logs:
        await edge.http.post(
            "/v1/devices/register", json={"token": "phone-token", "platform": "ios"}, headers=headers
        )
        await edge.http.get("/v1/users/ada@example.com", headers=headers)
        await edge.http.get("/nowhere?token=phone-token")

    requests = [entry for entry in logs if entry["event"] == "request handled"]
    assert [(entry["method"], entry["path"], entry["status"]) for entry in requests] == [
        ("POST", "/v1/devices/register", 200),
        ("GET", "/v1/users/{user_id}", 401),
        ("GET", "(no route)", 404),
    ]
    # What succeeds in time is of no interest.
    assert [entry["log_level"] for entry in requests] == ["debug", "info", "info"]
    assert all(entry["duration_ms"] > 0 and entry["request_id"] for entry in requests)
    written = str(logs)
    assert "phone-token" not in written
    assert headers["Authorization"].removeprefix("Bearer ") not in written
    assert "ada@example.com" not in written


def test_codes_are_unique_and_documented() -> None:
    documented = dict(re.findall(r"^\| `(\w+)` \| (\d{3}) \|", REFERENCE.read_text(), re.MULTILINE))

    declared = [each for each in vars(problems).values() if isinstance(each, ProblemType)]
    assert documented == {each.code: str(each.status) for each in declared}
    assert len(documented) == len(declared)


def test_the_rights_of_each_role_are_documented() -> None:
    text = REFERENCE.read_text()

    for right in Right:
        cells = " | ".join("yes" if right in RIGHTS[role] else "no" for role in Role)
        assert f"| {right} | {cells} |" in text
