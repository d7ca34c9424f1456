"""Every route of the API, called by whoever is bound to one organisation about what is another one's.

A route that is not in the table fails the first test: it needs a decision.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, NamedTuple

import httpx
import pytest

from tests.edges.api.organisations.conftest import World
from tests.edges.api.organisations.world import intent, stored
from tests.edges.edge import faults
from tocsin.api.app import ROUTES
from tocsin.api.auth.roles import Right, Role
from tocsin.api.person import fisa_devices
from tocsin.api.routes import OPERATION
from tocsin.domain.ids import uuid7

SOON = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
ABSENT = {
    "user_id": "nobody",
    "notification_id": str(uuid7()),
    "waiting_id": str(uuid7()),
    "external_id": "none-1-0",
    "delivery_id": str(uuid7()),
    "address": "nobody@example.org",
    "endpoint_id": str(uuid7()),
    "replay_id": str(uuid7()),
    "name": "none",
}


class Call(NamedTuple):
    """What is sent about an organisation, and what becomes of it for another one.

    `absent`: 404, as for what does not exist. `refused`: 422, as for what does not exist. `left_out`: the
    answer has nothing of it. `{…}` are the ids of the organisation.
    """

    result: Literal["absent", "refused", "left_out"]
    body: Any = None
    path: str | None = None


CLOSED = "closed"
"""The call concerns all organisations, and is refused."""
NO_HOLDER = "no holder"
"""The call is public, or a person's own."""

OF_USER = intent("{user_id}")
ROUTES_TABLE: Mapping[str, Call | str] = {
    "POST /v1/notifications": Call("refused", OF_USER),
    "POST /v1/notifications/batch": Call("left_out", {"notifications": [OF_USER]}),
    "POST /v1/notifications/explain": Call("refused", OF_USER),
    "GET /v1/notifications": Call("left_out", path="/v1/notifications?user={user_id}"),
    "GET /v1/notifications/{notification_id}": Call("absent"),
    "POST /v1/notifications/{notification_id}/cancel": Call(
        "absent", path="/v1/notifications/{waiting_id}/cancel"
    ),
    "POST /v1/notifications/{notification_id}/reschedule": Call(
        "absent", {"send_at": SOON}, "/v1/notifications/{waiting_id}/reschedule"
    ),
    # By a key of the caller's own; that of another organisation has the same.
    "POST /v1/notifications/cancel": Call("absent", {"idempotency_key": "waiting of {user_id}"}),
    "PUT /v1/users/{user_id}": Call("refused", {"locale": "de"}),
    "PUT /v1/users": Call("refused", {"users": [{"user_id": "{user_id}", "locale": "de"}]}),
    "PUT /v1/segments/{name}": Call("refused", {"user_id": "{user_id}"}),
    "GET /v1/segments": Call("left_out"),
    "DELETE /v1/segments/{name}": Call("absent"),
    "GET /v1/users/{user_id}": Call("absent"),
    "DELETE /v1/users/{user_id}": Call("absent"),
    "GET /v1/users/{user_id}/export": Call("absent"),
    "GET /v1/users/{user_id}/preferences": Call("absent"),
    "PATCH /v1/users/{user_id}/preferences": Call("absent", {"customers": {"push": True}}),
    "POST /v1/users/{user_id}/webhooks": Call("absent", {"url": "https://elsewhere.example/hook"}),
    "GET /v1/users/{user_id}/webhooks": Call("absent"),
    "DELETE /v1/users/{user_id}/webhooks/{endpoint_id}": Call("absent"),
    "POST /v1/users/{user_id}/webhooks/{endpoint_id}/rotate": Call("absent"),
    "GET /v1/admin/people/{user_id}": Call("absent"),
    "GET /v1/admin/refused": Call("left_out"),
    "GET /v1/admin/dead-letters": Call("left_out"),
    "GET /v1/admin/dead-letters/export": Call("left_out"),
    "POST /v1/admin/dead-letters/replay": Call("left_out", {"filter": {"delivery_id": "{delivery_id}"}}),
    "GET /v1/admin/replays": Call("left_out"),
    "GET /v1/admin/replays/{replay_id}": Call("absent"),
    "POST /v1/admin/replays/{replay_id}/stop": Call("absent"),
    "POST /v1/admin/notifications/cancel": Call("left_out", {"filter": {"type": "new_customer"}}),
    "GET /v1/admin/keys": CLOSED,
    "POST /v1/admin/keys": CLOSED,
    "POST /v1/admin/keys/{key}/rotate": CLOSED,
    "DELETE /v1/admin/keys/{key_id}": CLOSED,
    "POST /v1/admin/webpush/rotate": CLOSED,
    "GET /v1/admin/toggles": CLOSED,
    "PUT /v1/admin/toggles/{name}": CLOSED,
    "GET /v1/admin/toggles/{name}/history": CLOSED,
    "GET /v1/admin/providers": CLOSED,
    "POST /v1/admin/providers/{name}/pause": CLOSED,
    "POST /v1/admin/providers/{name}/resume": CLOSED,
    "POST /v1/admin/providers/{name}/try": CLOSED,
    "GET /v1/admin/progress": CLOSED,
    "GET /v1/admin/sources": CLOSED,
    "POST /v1/admin/progress/{name}/run": CLOSED,
    "POST /v1/admin/progress/{name}/rewind": CLOSED,
    "GET /v1/admin/alarms": CLOSED,
    "POST /v1/admin/alarms/{alarm_id}/clear": CLOSED,
    "GET /v1/admin/suppressions": CLOSED,
    "PUT /v1/admin/suppressions/{address}": CLOSED,
    "DELETE /v1/admin/suppressions/{address}": CLOSED,
    "GET /v1/admin/catalog": CLOSED,
    "POST /v1/admin/catalog/reload": CLOSED,
    "GET /v1/admin/audit": CLOSED,
    "GET /v1/admin/receipts": CLOSED,
    "GET /v1/admin/queue": CLOSED,
    "GET /v1/admin/scheduled": CLOSED,
    "POST /v1/internal/endpoints/find": CLOSED,
    "POST /v1/internal/endpoints/retire": CLOSED,
    "POST /api/v1/notifications/devices/register": NO_HOLDER,
    "POST /api/v1/notifications/devices/unregister": NO_HOLDER,
    "POST /v1/devices/register": NO_HOLDER,
    "POST /v1/devices/unregister": NO_HOLDER,
    "GET /v1/devices": NO_HOLDER,
    "PATCH /v1/devices/{device_id}": NO_HOLDER,
    "GET /v1/webpush/key": NO_HOLDER,
    "GET /v1/preferences": NO_HOLDER,
    "PATCH /v1/preferences": NO_HOLDER,
    "GET /v1/preferences/categories": NO_HOLDER,
    "GET /v1/inbox": NO_HOLDER,
    "GET /v1/inbox/component/{file}": NO_HOLDER,
    "POST /v1/inbox/{item_id}/read": NO_HOLDER,
    "POST /v1/inbox/{item_id}/unread": NO_HOLDER,
    "POST /v1/inbox/{item_id}/archive": NO_HOLDER,
    "POST /v1/inbox/{item_id}/unarchive": NO_HOLDER,
    "POST /v1/inbox/seen": NO_HOLDER,
    "POST /v1/inbox/read": NO_HOLDER,
    "POST /v1/receipts": NO_HOLDER,
    "POST /v1/receipts/signed": NO_HOLDER,
    "GET /v1/unsubscribe/{token}": NO_HOLDER,
    "POST /v1/unsubscribe/{token}": NO_HOLDER,
    "GET /healthz": NO_HOLDER,
    "GET /readyz": NO_HOLDER,
    "GET /v1/time": NO_HOLDER,
    "GET /openapi.json": NO_HOLDER,
}
CALLS = {route: call for route, call in ROUTES_TABLE.items() if isinstance(call, Call)}


def of_result(*results: str) -> list[str]:
    return [route for route, call in CALLS.items() if call.result in results]


def filled(value: Any, ids: Mapping[str, str]) -> Any:
    match value:
        case str():
            return value.format_map(ids) if "{" in value else value
        case dict():
            return {name: filled(each, ids) for name, each in value.items()}
        case list():
            return [filled(each, ids) for each in value]
        case _:
            return value


async def make(world: World, route: str, ids: Mapping[str, str], headers: dict[str, str]) -> httpx.Response:
    """Make the call of a route about what has these ids."""
    call, (method, _, path) = CALLS[route], route.partition(" ")
    return await world.edge.http.request(
        method, filled(call.path or path, ids), json=filled(call.body, ids), headers=headers
    )


def test_every_route_has_a_decision() -> None:
    declared = {}
    for handler in (*ROUTES, *fisa_devices.routes.handlers):
        [path] = handler.paths
        [method] = handler.http_methods
        declared[f"{method} {path.replace(':str}', '}')}"] = handler.opt[OPERATION]

    assert set(ROUTES_TABLE) == set(declared)
    for route, operation in declared.items():
        assert (ROUTES_TABLE[route] is NO_HOLDER) == (not isinstance(operation.access, Right)), route
        assert isinstance(ROUTES_TABLE[route], Call) == operation.within_organisation, route


@pytest.mark.parametrize("route", [route for route, call in ROUTES_TABLE.items() if call is CLOSED])
async def test_what_concerns_all_organisations_is_refused(world: World, route: str) -> None:
    method, _, path = route.partition(" ")
    unused = {"name": "x", "key": "globex-shop", "key_id": uuid7(), "alarm_id": uuid7(), "address": "a@b.c"}
    answer = await world.edge.http.request(method, path.format_map(unused), headers=world.acme.headers)

    assert (answer.status_code, answer.json()["code"]) == (403, "not_for_organisations")


@pytest.mark.parametrize("route", of_result("absent", "refused"))
async def test_what_is_of_another_organisation_is_answered_as_if_it_did_not_exist(
    world: World, route: str
) -> None:
    before = await stored(world.edge, world.globex)

    answer = await make(world, route, world.globex.ids, world.acme.headers)

    absent = await make(world, route, ABSENT, world.acme.headers)
    if route.startswith("PUT "):
        # Whoever is unknown can be added; nothing but the id can be told from the refusal.
        assert faults(answer).popitem()[1] == "not_your_organisation"
    else:
        expected = 404 if CALLS[route].result == "absent" else 422
        assert (answer.status_code, absent.status_code) == (expected, expected), answer.text
        assert answer.text == absent.text.replace(ABSENT["user_id"], world.globex.ids["user_id"])
    assert await stored(world.edge, world.globex) == before


@pytest.mark.parametrize("route", of_result("left_out"))
async def test_what_is_of_another_organisation_is_neither_listed_nor_changed(
    world: World, route: str
) -> None:
    before = await stored(world.edge, world.globex)

    answer = await make(world, route, world.globex.ids, world.acme.headers)

    assert answer.is_success, answer.text
    sent = world.globex.ids["user_id"] if "batch" in route else None
    known = {"globex", *world.globex.ids.values()} - {sent}
    assert not [each for each in known if each in answer.text]
    assert await stored(world.edge, world.globex) == before


@pytest.mark.parametrize("route", CALLS)
async def test_its_own_is_found_and_changed(world: World, route: str) -> None:
    ids = world.acme.ids
    if route == "POST /v1/notifications/cancel":
        sent = intent("ann", key="waiting of ann", send_at=SOON)
        await world.edge.http.post("/v1/notifications", json=sent, headers=world.acme.headers)
    if route == "DELETE /v1/users/{user_id}/webhooks/{endpoint_id}":
        assert (await make(world, route, ids, world.acme.headers)).json()["retired_at"]
    answer = await make(world, route, ids, world.acme.headers)

    assert answer.is_success, answer.text
    assert "not_your_organisation" not in answer.text
    if route.startswith("GET /v1/admin/") or route == "GET /v1/notifications":
        assert any(each in answer.text for each in ids.values())


async def test_whoever_is_bound_to_none_has_access_to_all(world: World) -> None:
    platform = await world.edge.key(Role.ADMIN, "platform")
    listed = (await world.edge.http.get("/v1/notifications", headers=platform)).json()["items"]
    one = await world.edge.http.get("/v1/notifications", params={"org_id": "globex"}, headers=platform)

    assert {each["org_id"] for each in listed} == {"acme", "globex"}
    assert {each["org_id"] for each in one.json()["items"]} == {"globex"}
    for route in of_result("absent"):
        if not route.startswith("DELETE") and route != "POST /v1/notifications/cancel":
            answer = await make(world, route, world.globex.ids, platform)
            assert answer.is_success, (route, answer.text)
