from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from tests.catalogs import shipped
from tests.edges.edge import FREE_PORT, Edge, faults, listening, services
from tocsin.api.app import create_app
from tocsin.api.auth.roles import Role
from tocsin.engine.toggles.toggles import Toggles
from tocsin.store.pool import Pool

PATH = "/v1/admin/toggles"


@pytest.fixture
async def edge(pool: Pool) -> AsyncIterator[Edge]:
    app = create_app(services(pool), shipped())
    async with listening(app, FREE_PORT) as url, httpx.AsyncClient(base_url=url, timeout=20) as http:
        yield Edge(http, pool)


async def switch(edge: Edge, name: str, body: dict[str, Any], headers: dict[str, str]) -> httpx.Response:
    return await edge.http.put(f"{PATH}/{name}", json=body, headers=headers)


async def test_an_operator_switches_a_type_off_and_on(edge: Edge) -> None:
    operator = await edge.key(Role.OPERATOR, "night-shift")
    toggles = Toggles()
    assert (await edge.http.get(PATH, headers=operator)).json() == {"toggles": []}

    body = {"enabled": False, "reason": "wrong text"}
    off = await switch(edge, "type:new_customer:push", body, operator)

    assert off.status_code == 200
    shown = off.json()
    assert (shown.pop("warnings"), shown.pop("discarded")) == ([], 0)
    assert {field: shown[field] for field in ("name", "enabled", "reason")} == {
        "name": "type:new_customer:push",
        "enabled": False,
        "reason": "wrong text",
    }
    assert (await edge.http.get(PATH, headers=operator)).json() == {"toggles": [shown]}
    await toggles.load(edge.pool)
    assert not toggles.is_on("new_customer", "push")

    assert (await switch(edge, "type:new_customer:push", {"enabled": True}, operator)).status_code == 200
    await toggles.load(edge.pool)
    assert toggles.is_on("new_customer", "push")
    toggles.close()


async def test_the_history_names_the_key_that_switched(edge: Edge) -> None:
    first, second = await edge.key(Role.OPERATOR, "night-shift"), await edge.key(Role.ADMIN, "root")
    key_ids = [str(row["id"]) for row in await edge.pool.fetch("select id from api_keys order by id")]
    await switch(edge, "provider:fcm", {"enabled": False, "reason": "outage"}, first)
    await switch(edge, "provider:fcm", {"enabled": True}, second)
    await switch(edge, "channel:push", {"enabled": False}, second)

    history = (await edge.http.get(f"{PATH}/provider:fcm/history", headers=first)).json()

    assert history["next"] is None
    assert [
        (change["was_enabled"], change["enabled"], change["reason"], change["changed_by"])
        for change in history["changes"]
    ] == [
        (False, True, None, f"root (key {key_ids[1]})"),
        (True, False, "outage", f"night-shift (key {key_ids[0]})"),
    ]
    assert {change["name"] for change in history["changes"]} == {"provider:fcm"}


async def test_the_history_is_read_in_pages(edge: Edge) -> None:
    operator = await edge.key(Role.OPERATOR)
    for number in range(3):
        await switch(edge, "channel:email", {"enabled": False, "reason": str(number)}, operator)
    path = f"{PATH}/channel:email/history"

    first = (await edge.http.get(path, params={"limit": 2}, headers=operator)).json()
    older = {"limit": 2, "before": first["next"]}
    second = (await edge.http.get(path, params=older, headers=operator)).json()

    assert [change["reason"] for change in first["changes"] + second["changes"]] == ["2", "1", "0"]
    assert second["next"] is None
    wrong = await edge.http.get(path, params={"limit": 0, "before": "x"}, headers=operator)
    assert (wrong.status_code, faults(wrong)) == (422, {"limit": "invalid", "before": "invalid"})


async def test_what_was_never_switched_has_an_empty_history(edge: Edge) -> None:
    answer = await edge.http.get(f"{PATH}/type:quiet/history", headers=await edge.key(Role.VIEWER))

    assert (answer.status_code, answer.json()) == (200, {"changes": [], "next": None})


@pytest.mark.parametrize(
    ("role", "reads", "switches"),
    [
        (Role.PRODUCER, 403, 403),
        (Role.VIEWER, 200, 403),
        (Role.OPERATOR, 200, 200),
        (Role.ADMIN, 200, 200),
    ],
)
async def test_who_may_read_and_who_may_switch(edge: Edge, role: Role, reads: int, switches: int) -> None:
    headers = await edge.key(role)

    assert (await edge.http.get(PATH, headers=headers)).status_code == reads
    assert (await edge.http.get(f"{PATH}/type:a/history", headers=headers)).status_code == reads
    assert (await switch(edge, "type:a", {"enabled": False}, headers)).status_code == switches
    changed = await edge.pool.fetchval("select count(*) from toggle_changes")
    assert changed == (switches == 200)


async def test_without_a_key_nothing_is_told(edge: Edge) -> None:
    assert (await edge.http.get(PATH)).status_code == 401
    assert (await switch(edge, "type:a", {"enabled": False}, {})).status_code == 401


@pytest.mark.parametrize("name", ["new_customer", "type:", "type:a:sms", "channel:sms", "type:A", "x%00y"])
async def test_what_names_no_toggle_is_refused(edge: Edge, name: str) -> None:
    operator = await edge.key(Role.OPERATOR)

    put = await switch(edge, name, {"enabled": False}, operator)
    history = await edge.http.get(f"{PATH}/{name}/history", headers=operator)

    assert (put.status_code, put.json()["code"], faults(put)) == (422, "invalid_body", {"name": "invalid"})
    assert (history.status_code, faults(history)) == (422, {"name": "invalid"})


@pytest.mark.parametrize(
    ("body", "wrong"),
    [
        ({}, {"enabled": "missing"}),
        ({"enabled": "no"}, {"enabled": "invalid"}),
        ({"enabled": 0, "because": "x"}, {"enabled": "invalid", "because": "unknown"}),
        ({"enabled": False, "reason": ""}, {"reason": "invalid"}),
        ({"enabled": False, "reason": "  "}, {"reason": "invalid"}),
        ({"enabled": False, "reason": "a\nb"}, {"reason": "invalid"}),
        ({"enabled": False, "reason": "x" * 501}, {"reason": "invalid"}),
    ],
)
async def test_a_wrong_body_is_refused_and_switches_nothing(
    edge: Edge, body: dict[str, Any], wrong: dict[str, str]
) -> None:
    answer = await switch(edge, "type:a", body, await edge.key(Role.OPERATOR))

    assert (answer.status_code, faults(answer)) == (422, wrong)
    assert await edge.pool.fetchval("select count(*) from toggles") == 0


async def test_a_type_the_catalog_does_not_have_is_switched_with_a_warning(edge: Edge) -> None:
    operator = await edge.key(Role.OPERATOR)

    unknown = await switch(edge, "type:new_custmer", {"enabled": False}, operator)
    elsewhere = await switch(edge, "type:new_customer:webhook", {"enabled": False}, operator)

    assert unknown.status_code == 200
    assert unknown.json()["warnings"] == ["The catalog has no type 'new_custmer'; did you mean new_customer?"]
    assert elsewhere.json()["warnings"] == ["new_customer does not go by webhook, only by push"]


async def test_a_name_may_be_percent_encoded(edge: Edge) -> None:
    answer = await switch(edge, "type%3Anew_customer", {"enabled": False}, await edge.key(Role.OPERATOR))

    assert answer.json()["name"] == "type:new_customer"
