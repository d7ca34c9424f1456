"""Who may call which route of the dashboard: a table made of the list of pages."""

import re
from uuid import uuid4

import pytest
from litestar.handlers import HTTPRouteHandler

from tests.edges.api.dashboard.visits import SESSION_COOKIE, SIGN_IN, Visit, signed_in
from tests.edges.edge import Edge, running, services
from tocsin.api.auth.holders import Holder
from tocsin.api.auth.roles import Role
from tocsin.api.dashboard.access import ACCESS, PageAccess
from tocsin.api.dashboard.registry import PAGES
from tocsin.api.settings import AuthSettings
from tocsin.store.pool import Pool

ROUTES = [handler for page in PAGES for handler in page.handlers]


def call(handler: HTTPRouteHandler) -> tuple[str, str, PageAccess]:
    [path], [method] = handler.paths, handler.http_methods
    return method, re.sub(r"{\w+:str}", str(uuid4()), path), handler.opt[ACCESS]


async def statuses(visit: Visit) -> dict[str, int]:
    """Call every route, and return what each answers."""
    token, answers = await visit.csrf_token(), {}
    for handler in ROUTES:
        method, path, _ = call(handler)
        answer = await (visit.get(path) if method == "GET" else visit.post(path, token))
        answers[f"{method} {handler.paths}"] = answer.status_code
    return answers


@pytest.mark.parametrize("role", [Role.VIEWER, Role.OPERATOR, Role.ADMIN])
async def test_a_role_may_call_what_its_rights_allow(edge: Edge, role: Role) -> None:
    visit = await signed_in(edge, role)
    holder = Holder(producer="console", roles=(role,))

    for route, status in (await statuses(visit)).items():
        handler = next(
            each
            for each in ROUTES
            if route.endswith(str(each.paths)) and route.split()[0] in each.http_methods
        )
        permitted = call(handler)[2].permits(holder)
        # Nothing has the ids of the calls, forms are empty, and a stream has to be asked for.
        answers = {400} if "/stream" in route else {200, 303, 404, 422}
        assert status in (answers if permitted else {403}), route


async def test_whoever_is_signed_out_is_led_to_the_form(edge: Edge) -> None:
    visit = Visit(edge.http)

    for handler in ROUTES:
        method, path, _ = call(handler)
        answer = await (visit.get(path) if method == "GET" else visit.post(path, "0" * 64))
        assert (answer.status_code, answer.text) == (303, ""), path
        expected = f"{SIGN_IN}?next={path}" if method == "GET" else SIGN_IN
        assert answer.headers["location"] == expected
        refreshed = await visit.http.request(method, path, headers={"HX-Request": "true"})
        assert (refreshed.status_code, refreshed.headers["hx-redirect"]) == (401, SIGN_IN)


async def test_a_form_without_the_token_of_its_session_changes_nothing(edge: Edge) -> None:
    visit = await signed_in(edge, Role.ADMIN)
    other = await visit.csrf_token()
    visit = await signed_in(edge, Role.ADMIN)

    for handler in ROUTES:
        method, path, _ = call(handler)
        if method == "POST":
            for token in ("", "0" * 64, other, "ü" * 64):
                assert (await visit.post(path, token)).status_code == 403, path


@pytest.mark.parametrize("role", [Role.PRODUCER, Role.DELIVERY])
async def test_keys_of_programs_cannot_sign_in(edge: Edge, role: Role) -> None:
    key = (await edge.key(role))["Authorization"].removeprefix("Bearer ")

    answer = await Visit(edge.http).sign_in(key)

    assert answer.status_code == 403
    assert f"A key with the role {role} may not see every notification." in answer.text
    assert SESSION_COOKIE not in edge.http.cookies


async def test_a_key_of_an_organisation_sees_the_pages_that_keep_to_it(pool: Pool) -> None:
    auth = AuthSettings(jwt_secret="a secret of at least thirty-two bytes", org_scoping=True)
    async with running(services(pool, auth=auth)) as edge:
        visit = await signed_in(edge, Role.OPERATOR, org_id="acme")
        holder = Holder(producer="console", roles=(Role.OPERATOR,), org_id="acme")
        for page in PAGES:
            answer = await visit.get(page.path)
            assert answer.status_code == (200 if page.access.permits(holder) else 403), page.name


async def test_a_key_of_an_organisation_is_refused_without_scoping(edge: Edge) -> None:
    key = (await edge.key(Role.ADMIN, org_id="acme"))["Authorization"].removeprefix("Bearer ")

    answer = await Visit(edge.http).sign_in(key)

    assert (answer.status_code, "ORG_SCOPING is off" in answer.text) == (403, True)
