"""Running sessions of people follow the settings that map a claim to roles."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from tests.edges.api.dashboard.oidc.issuer import Issuer
from tests.edges.api.dashboard.oidc.sign_ins import NOW, edge_of, sign_in
from tests.edges.api.dashboard.visits import Visit, signed_in
from tests.edges.edge import SECRET, Edge
from tocsin.api.auth.roles import Role
from tocsin.api.settings import AuthSettings
from tocsin.store.pool import Pool


@pytest.fixture
async def cookies(pool: Pool, issuer: Issuer) -> httpx.Cookies:
    """Return the cookies of somebody who is an operator by one group and a viewer by another."""
    issuer.claims["groups"] = ["guests", "ops", "staff"]
    async with edge_of(pool, issuer.url) as edge:
        await sign_in(edge)
        assert await _statuses(edge) == {"now": 200, "suppressions": 200, "keys": 403}
        return edge.http.cookies


@asynccontextmanager
async def restarted(
    pool: Pool, issuer: Issuer, cookies: httpx.Cookies, **changes: Any
) -> AsyncIterator[Edge]:
    """Serve the dashboard with changed settings to the same browser."""
    async with edge_of(pool, issuer.url, **changes) as edge:
        edge.http.cookies = cookies
        yield edge


async def _statuses(edge: Edge) -> dict[str, int]:
    names = ("now", "suppressions", "keys")
    return {name: (await edge.http.get(f"/dashboard/{name}")).status_code for name in names}


@pytest.mark.parametrize(
    ("changes", "statuses"),
    [
        ({}, (200, 200, 403)),
        ({"operators": ["others"]}, (200, 403, 403)),
        ({"admins": ["ops"]}, (200, 200, 200)),
        ({"operators": ["others"], "viewers": ["others"]}, (303, 303, 303)),
        ({"role_claim": "roles"}, (303, 303, 303)),
    ],
    ids=["the same", "one group removed", "a group promoted", "every group removed", "another claim"],
)
async def test_a_changed_mapping_takes_effect_at_once(
    pool: Pool,
    issuer: Issuer,
    cookies: httpx.Cookies,
    changes: dict[str, Any],
    statuses: tuple[int, int, int],
) -> None:
    async with restarted(pool, issuer, cookies, **changes) as edge:
        assert tuple((await _statuses(edge)).values()) == statuses


@pytest.mark.usefixtures("cookies")
async def test_only_values_that_stand_for_a_role_are_stored(pool: Pool) -> None:
    row = await pool.fetchrow("select role_claim, role_values from dashboard_sessions")

    assert (row["role_claim"], row["role_values"]) == ("groups", ["ops", "staff"])


async def test_a_session_without_the_values_has_ended(
    pool: Pool, issuer: Issuer, cookies: httpx.Cookies
) -> None:
    # As a process of the release before opens them.
    await pool.execute("update dashboard_sessions set role_claim = null, role_values = null")

    async with restarted(pool, issuer, cookies) as edge:
        assert (await edge.http.get(NOW)).status_code == 303


@pytest.mark.usefixtures("cookies")
async def test_the_list_shows_the_role_of_the_settings_and_no_session_that_they_ended(
    pool: Pool, issuer: Issuer
) -> None:
    async with edge_of(pool, issuer.url, operators=["others"]) as edge:
        shown = await (await signed_in(edge, Role.ADMIN)).shown("/dashboard/sessions")
        assert "the session of ada" in shown
        assert (shown.count(">viewer<"), shown.count(">operator<")) == (1, 0)

    async with edge_of(pool, issuer.url, operators=["others"], viewers=[]) as edge:
        shown = await (await signed_in(edge, Role.ADMIN)).shown("/dashboard/sessions")
        assert "the session of ada" not in shown


@pytest.mark.parametrize("way", ["sign-out", "sign-out-everywhere"])
async def test_somebody_who_may_use_nothing_any_more_can_sign_out_and_in_again(
    pool: Pool, issuer: Issuer, way: str
) -> None:
    """Admins need no organisation here, and viewers do: the role of the settings is not enough any more."""
    issuer.claims["groups"] = ["staff"]
    auth = AuthSettings(jwt_secret=SECRET, org_scoping=True, unscoped_roles=[Role.ADMIN])
    async with edge_of(pool, issuer.url, parts={"auth": auth}, admins=["staff"]) as edge:
        await sign_in(edge)
        cookies = edge.http.cookies

    async with restarted(pool, issuer, cookies, parts={"auth": auth}) as edge:
        refused = await edge.http.get(NOW)
        assert (refused.status_code, "Sign in again." in refused.text) == (403, True)

        left = await Visit(edge.http).post(f"/dashboard/{way}", await Visit(edge.http).csrf_token(NOW))

        assert left.status_code in {200, 303}
        assert (await edge.http.get(NOW)).status_code == 303
