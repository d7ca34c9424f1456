"""Who may call which route of the dashboard, written down.

A route that is not in the table fails the first test: it needs a decision, and a line here.
"""

import re
from collections.abc import AsyncIterator
from uuid import uuid4

import httpx
import pytest
from litestar.routes import HTTPRoute

from tests.edges.api.dashboard.oidc.issuer import running_issuer
from tests.edges.api.dashboard.oidc.sign_ins import edge_of
from tests.edges.api.dashboard.visits import SIGN_IN, Visit, signed_in
from tests.edges.edge import Edge
from tocsin.api.auth.roles import Role
from tocsin.api.dashboard.router import dashboard_router
from tocsin.store.pool import Pool

# sign in: led to the form; no: refused; yes: answered, be it that nothing has the id or the form is empty.
# Signing in is refused here since an empty form has no key, and nothing was begun at the issuer.
TABLE = """
                                                            signed out  viewer  operator  admin
GET  /dashboard                                             sign in     yes     yes       yes
GET  /dashboard/sign-in                                     yes         yes     yes       yes
POST /dashboard/sign-in                                     no          no      no        no
GET  /dashboard/oidc/start                                  yes         yes     yes       yes
GET  /dashboard/oidc/callback                               no          no      no        no
POST /dashboard/sign-out                                    sign in     yes     yes       yes
POST /dashboard/sign-out-everywhere                         sign in     yes     yes       yes
GET  /dashboard/assets/{name}                               yes         yes     yes       yes
GET  /dashboard/now                                         sign in     yes     yes       yes
GET  /dashboard/now/live                                    sign in     yes     yes       yes
GET  /dashboard/now/stream                                  sign in     yes     yes       yes
GET  /dashboard/notifications                               sign in     yes     yes       yes
GET  /dashboard/notifications/{notification_id}             sign in     yes     yes       yes
GET  /dashboard/dead-letters                                sign in     yes     yes       yes
GET  /dashboard/dead-letters/cause                          sign in     yes     yes       yes
GET  /dashboard/dead-letters/export                         sign in     yes     yes       yes
POST /dashboard/dead-letters/replay                         sign in     no      yes       yes
POST /dashboard/dead-letters/replay-chosen                  sign in     no      yes       yes
GET  /dashboard/dead-letters/replays/{replay_id}            sign in     yes     yes       yes
GET  /dashboard/dead-letters/replays/{replay_id}/progress   sign in     yes     yes       yes
POST /dashboard/dead-letters/replays/{replay_id}/stop       sign in     no      yes       yes
GET  /dashboard/people                                      sign in     no      yes       yes
GET  /dashboard/people/{user_id}                            sign in     no      yes       yes
POST /dashboard/people/{user_id}/test                       sign in     no      no        yes
POST /dashboard/people/{user_id}/erase                      sign in     no      yes       yes
GET  /dashboard/people/{user_id}/export                     sign in     no      yes       yes
GET  /dashboard/providers                                   sign in     yes     yes       yes
GET  /dashboard/providers/live                              sign in     yes     yes       yes
GET  /dashboard/providers/stream                            sign in     yes     yes       yes
GET  /dashboard/providers/{name}                            sign in     yes     yes       yes
POST /dashboard/providers/{name}/pause                      sign in     no      yes       yes
POST /dashboard/providers/{name}/resume                     sign in     no      yes       yes
POST /dashboard/providers/{name}/try                        sign in     no      yes       yes
GET  /dashboard/types                                       sign in     yes     yes       yes
GET  /dashboard/types/toggles/{name}                        sign in     yes     yes       yes
POST /dashboard/types/toggles                               sign in     no      yes       yes
POST /dashboard/types/reload                                sign in     no      yes       yes
GET  /dashboard/types/named/{name}                          sign in     yes     yes       yes
POST /dashboard/types/named/{name}/preview                  sign in     yes     yes       yes
POST /dashboard/types/named/{name}/explain                  sign in     no      no        yes
GET  /dashboard/scheduled                                   sign in     yes     yes       yes
GET  /dashboard/scheduled/cancel                            sign in     no      yes       yes
POST /dashboard/scheduled/cancel                            sign in     no      yes       yes
GET  /dashboard/producers                                   sign in     yes     yes       yes
GET  /dashboard/producers/refused                           sign in     yes     yes       yes
POST /dashboard/producers/periodic/{name}/run               sign in     no      yes       yes
POST /dashboard/producers/periodic/{name}/rewind            sign in     no      yes       yes
GET  /dashboard/suppressions                                sign in     no      yes       yes
POST /dashboard/suppressions                                sign in     no      yes       yes
POST /dashboard/suppressions/remove                         sign in     no      yes       yes
GET  /dashboard/keys                                        sign in     no      no        yes
POST /dashboard/keys                                        sign in     no      no        yes
POST /dashboard/keys/{key_id}/rotate                        sign in     no      no        yes
POST /dashboard/keys/{key_id}/revoke                        sign in     no      no        yes
GET  /dashboard/sessions                                    sign in     yes     yes       yes
POST /dashboard/sessions/end                                sign in     yes     yes       yes
POST /dashboard/sessions/end-others                         sign in     yes     yes       yes
GET  /dashboard/audit                                       sign in     no      yes       yes
"""
COLUMNS = ("signed out", Role.VIEWER, Role.OPERATOR, Role.ADMIN)
ROWS = {
    re.sub(r" +", " ", route): dict(zip(COLUMNS, marks, strict=True))
    for route, *marks in (re.split(r" {2,}(?=\S)(?!/)", line) for line in TABLE.strip().splitlines()[1:])
}
ENDING = ("POST /dashboard/sign-out", "POST /dashboard/sign-out-everywhere")
"""Whoever calls these is led to the form in any case; what they do is told by the session."""


@pytest.fixture
async def edge(pool: Pool) -> AsyncIterator[Edge]:
    async with running_issuer() as issuer, edge_of(pool, issuer.url) as running:
        yield running


def routes(*, at_root: bool = False) -> set[str]:
    """List the routes that the app has; one of another kind than HTTP would have no place in the table."""
    return {
        f"{method} {route.path.replace(':str', '')}"
        for route in dashboard_router(with_oidc=True, at_root=at_root).routes
        for method in (route.methods if isinstance(route, HTTPRoute) else [type(route).__name__])
        if method != "OPTIONS"
    }


def test_every_route_is_in_the_table_and_no_other() -> None:
    assert set(ROWS) == routes()
    assert routes(at_root=True) - routes() == {"GET /"}
    assert {mark for row in ROWS.values() for mark in row.values()} == {"yes", "no", "sign in"}


async def call(visit: Visit, route: str, token: str) -> httpx.Response:
    """Call a route with an id that nothing has, and an empty form; a body that goes on is not read."""
    method, path = route.split(" ")
    data = {"csrf_token": token} if method == "POST" else None
    request = visit.http.build_request(method, re.sub(r"{\w+}", str(uuid4()), path), data=data)
    answer = await visit.http.send(request, stream=True)
    await answer.aclose()
    return answer


def mark_of(answer: httpx.Response) -> str:
    if answer.status_code == 403:
        return "no"
    if answer.headers.get("location", "").startswith(SIGN_IN):
        return "sign in"
    # A stream is refused as malformed unless it is asked for as one.
    assert answer.status_code in {200, 303, 400, 404, 422}, answer.status_code
    return "yes"


@pytest.mark.parametrize("role", [Role.VIEWER, Role.OPERATOR, Role.ADMIN])
async def test_a_role_may_call_what_the_table_says(edge: Edge, role: Role) -> None:
    visit = await signed_in(edge, role)
    token, own = await visit.csrf_token(), await visit.csrf_token(SIGN_IN)

    found = {
        route: mark_of(await call(visit, route, own if route.endswith("/sign-in") else token))
        for route in ROWS
        if route not in ENDING
    }

    assert found == {route: row[role] for route, row in ROWS.items() if route not in ENDING}
    for route in ENDING:
        visit = await signed_in(edge, role)
        assert mark_of(await visit.get("/dashboard")) == "yes"
        await call(visit, route, await visit.csrf_token())
        assert mark_of(await visit.get("/dashboard")) == "sign in", route


async def test_whoever_is_signed_out_may_call_what_the_table_says(edge: Edge) -> None:
    visit = Visit(edge.http)
    token = await visit.csrf_token(SIGN_IN)

    found = {route: mark_of(await call(visit, route, token)) for route in ROWS}

    assert found == {route: row["signed out"] for route, row in ROWS.items()}
