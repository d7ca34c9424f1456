"""Signing in to the dashboard at an issuer: who gets in, as whom, and for how long."""

from http.cookies import SimpleCookie
from pathlib import Path
from typing import Any

import pytest

from tests.edges.api.dashboard.oidc.issuer import CLIENT_SECRET, EC_KEY, Issuer
from tests.edges.api.dashboard.oidc.sign_ins import (
    NOW,
    actions,
    begin,
    changed,
    consent,
    edge_of,
    is_signed_in,
    sign_in,
    spent,
)
from tests.edges.api.dashboard.visits import SESSION_COOKIE, SIGN_IN, Visit
from tests.edges.edge import COOKIE_SUFFIX, SECRET, Edge
from tocsin.api.auth import jwks
from tocsin.api.auth.roles import Role
from tocsin.api.settings import AuthSettings
from tocsin.store.pool import Pool


async def test_somebody_signs_in_and_is_recorded_by_name(edge: Edge) -> None:
    page = await sign_in(edge, next="/dashboard/notifications?user=ada")

    assert page.status_code == 200
    assert 'http-equiv="refresh" content="0;url=/dashboard/notifications?user=ada"' in page.text
    assert await is_signed_in(edge)
    shown = await Visit(edge.http).shown(NOW)
    assert "<strong>ada</strong>" in shown
    assert await actions(edge) == [("session.open", "oidc:u-1", "oidc:u-1 (signed in as ada)")]


@pytest.mark.parametrize(
    ("groups", "role"),
    [
        (["staff"], "viewer"),
        (["ops", "staff"], "operator"),
        (["staff", "root", "ops"], "admin"),
        ("super users", "admin"),
        ("ops", "operator"),
    ],
)
async def test_the_highest_role_of_a_persons_groups_counts(
    edge: Edge, issuer: Issuer, groups: Any, role: str
) -> None:
    issuer.claims["groups"] = groups

    await sign_in(edge)

    assert await edge.pool.fetchval("select role from dashboard_sessions") == role
    # Keys are for admins alone, and suppressions for operators.
    visit, allowed = Visit(edge.http), {"viewer": (403, 403), "operator": (403, 200), "admin": (200, 200)}
    answers = [await visit.get(f"/dashboard/{name}") for name in ("keys", "suppressions")]
    assert tuple(answer.status_code for answer in answers) == allowed[role]


@pytest.mark.parametrize("groups", [None, [], ["OPS"], ["not ops"], "not root", {"ops": True}, [["ops"]], 7])
async def test_somebody_without_a_role_is_refused_and_recorded(
    edge: Edge, issuer: Issuer, groups: Any
) -> None:
    issuer.claims["groups"] = groups

    page = await sign_in(edge)

    assert page.status_code == 403
    assert "You are signed in as ada, who has no role here." in page.text
    assert SESSION_COOKIE not in edge.http.cookies
    assert await actions(edge) == [("session.refuse", "oidc:u-1", "oidc:u-1 (signed in as ada)")]
    assert not await is_signed_in(edge)


async def test_the_role_is_read_again_at_each_sign_in(edge: Edge, issuer: Issuer) -> None:
    await sign_in(edge)
    issuer.claims["groups"] = ["staff"]
    await sign_in(edge)

    roles = await edge.pool.fetch("select role from dashboard_sessions order by created_at")
    assert [row["role"] for row in roles] == ["operator", "viewer"]


async def test_a_session_ends_after_its_hours(pool: Pool, issuer: Issuer) -> None:
    async with edge_of(pool, issuer.url, session_hours=2) as edge:
        await sign_in(edge)
        left = await pool.fetchval("select expires_at - now() from dashboard_sessions")
        assert 7_100 < left.total_seconds() <= 7_200
        await pool.execute("update dashboard_sessions set expires_at = now()")
        assert not await is_signed_in(edge)


async def test_sessions_end_when_the_issuer_is_not_the_one_of_the_settings(pool: Pool, edge: Edge) -> None:
    await sign_in(edge)
    cookie = {"Cookie": f"{SESSION_COOKIE}={edge.http.cookies[SESSION_COOKIE]}"}
    assert (await edge.http.get(NOW, headers=cookie)).status_code == 200

    async with edge_of(pool, "https://another.example.com") as other:
        assert (await other.http.get(NOW, headers=cookie)).status_code == 303


async def test_groups_are_read_from_userinfo_if_the_token_has_none(edge: Edge, issuer: Issuer) -> None:
    del issuer.claims["groups"]
    issuer.user_info = {"groups": ["root"]}

    await sign_in(edge)

    assert await edge.pool.fetchval("select role from dashboard_sessions") == "admin"
    issuer.user_info = {"groups": ["root"], "sub": "somebody-else"}
    assert (await sign_in(edge)).status_code == 403


@pytest.mark.parametrize(("verified", "status"), [(True, 200), (False, 403), ("true", 403), (None, 403)])
async def test_an_address_counts_only_once_the_issuer_has_verified_it(
    pool: Pool, issuer: Issuer, verified: object, status: int
) -> None:
    issuer.claims |= {"email": "ada@example.com", "email_verified": verified}
    async with edge_of(pool, issuer.url, role_claim="email", admins=["ada@example.com"]) as edge:
        assert (await sign_in(edge)).status_code == status


@pytest.mark.parametrize(
    ("methods", "way"),
    [
        (["client_secret_basic"], "basic"),
        (["client_secret_post"], "post"),
        (None, "basic"),
    ],
)
async def test_the_client_authenticates_as_the_issuer_asks_for(
    edge: Edge, issuer: Issuer, methods: list[str] | None, way: str
) -> None:
    issuer.metadata["token_endpoint_auth_methods_supported"] = methods

    assert (await sign_in(edge)).status_code == 200

    assert ("client_secret" in issuer.token_requests[0]) == (way == "post")


async def test_a_public_client_has_no_secret(pool: Pool, issuer: Issuer) -> None:
    issuer.client_secret = None
    async with edge_of(pool, issuer.url, client_secret=None) as edge:
        assert (await sign_in(edge)).status_code == 200


async def test_the_secret_is_read_from_a_file_at_each_sign_in(
    pool: Pool, issuer: Issuer, tmp_path: Path
) -> None:
    file = tmp_path / "secret"
    file.write_text("an old one\n")
    async with edge_of(pool, issuer.url, client_secret=None, client_secret_file=file) as edge:
        assert (await sign_in(edge)).status_code == 403
        file.write_text(f"{CLIENT_SECRET}\n")
        assert (await sign_in(edge)).status_code == 200
        file.unlink()
        assert (await sign_in(edge)).status_code == 503


async def test_a_key_that_the_issuer_rotated_to_is_found(
    edge: Edge, issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    await sign_in(edge)
    issuer.rotate(EC_KEY, "second")

    # The key set was fetched a moment ago, and is not fetched for each unknown key.
    assert (await sign_in(edge)).status_code == 403
    assert issuer.asked.count("jwks") == 1
    monkeypatch.setattr(jwks, "REFETCH_SECONDS", 0.0)
    assert (await sign_in(edge)).status_code == 200
    assert issuer.asked.count("jwks") == 2


async def test_two_tabs_sign_in_side_by_side(edge: Edge) -> None:
    first, second = await begin(edge, next="/dashboard/people"), await begin(edge, next=NOW)

    for location, shown in ((second, NOW), (first, "/dashboard/people")):
        page = await edge.http.get(await consent(location))
        assert (page.status_code, f"url={shown}" in page.text) == (200, True)


async def test_abandoned_sign_ins_do_not_fill_the_browser(edge: Edge) -> None:
    for _ in range(12):
        await begin(edge, next="/dashboard/" + "a" * 900)

    assert len([name for name in edge.http.cookies if "oidc" in name]) == 5
    assert (await sign_in(edge)).status_code == 200


async def test_the_state_of_a_sign_in_is_accepted_once(edge: Edge, issuer: Issuer) -> None:
    back = await consent(await begin(edge))
    assert (await edge.http.get(back)).status_code == 200

    again = await edge.http.get(back)

    assert (again.status_code, "was finished already" in again.text) == (403, True)
    assert spent(issuer) == 1


async def test_a_code_is_accepted_once(edge: Edge) -> None:
    first, second = await consent(await begin(edge)), await consent(await begin(edge))
    assert (await edge.http.get(first)).status_code == 200
    code = dict(part.split("=") for part in first.partition("?")[2].split("&"))["code"]

    # The code of another sign-in: PKCE refuses it, and so would it be refused as spent.
    page = await edge.http.get(changed(second, code=code))

    assert (page.status_code, "The issuer refused the code (invalid_grant)." in page.text) == (403, True)
    assert "never shown" not in page.text


@pytest.mark.parametrize("state", ["", "wrong", "A" * 43, "ü" * 16, None])
async def test_an_answer_to_no_sign_in_of_this_browser_is_refused(
    edge: Edge, issuer: Issuer, state: str | None
) -> None:
    back = await consent(await begin(edge))

    page = await edge.http.get(changed(back, state=state))
    edge.http.cookies.clear()
    stolen = await edge.http.get(back)

    for answer in (page, stolen):
        assert (answer.status_code, "not begun in this browser" in answer.text) == (403, True)
    assert spent(issuer) == 0


async def test_a_state_that_begins_like_the_right_one_is_refused(edge: Edge, issuer: Issuer) -> None:
    back = await consent(await begin(edge))
    state = dict(part.split("=") for part in back.partition("?")[2].split("&"))["state"]

    assert (await edge.http.get(changed(back, state=state[:-1] + "!"))).status_code == 403
    assert spent(issuer) == 0


@pytest.mark.parametrize(
    "wanted", ["https://example.org/", "//example.org", "/dashboard//example.org", "/v1/x", "/dashboard/\\x"]
)
async def test_signing_in_leads_only_to_the_dashboard(edge: Edge, wanted: str) -> None:
    page = await sign_in(edge, next=wanted)

    assert 'content="0;url=/dashboard"' in page.text
    assert "example.org" not in page.text


async def test_the_redirect_uri_does_not_follow_the_host_header(edge: Edge) -> None:
    answer = await edge.http.get("/dashboard/oidc/start", headers={"Host": "evil.example.org"})
    form = await edge.http.get(SIGN_IN, headers={"Host": "evil.example.org"})

    assert "evil.example.org" not in answer.headers["location"] + form.text
    assert 'href="http://localhost:8470/dashboard/oidc/start?next=%2Fdashboard"' in form.text


async def test_cookies_of_https_are_bound_to_the_host(pool: Pool, issuer: Issuer) -> None:
    async with edge_of(pool, issuer.url, public_url="https://tocsin.example.com/") as edge:
        answer = await edge.http.get("/dashboard/oidc/start")
    [set_cookie] = answer.headers.get_list("set-cookie")
    [(name, cookie)] = SimpleCookie(set_cookie).items()

    assert name.startswith(f"__Host-tocsin_oidc_{COOKIE_SUFFIX}_")
    assert (cookie["path"], cookie["samesite"], cookie["max-age"]) == ("/", "lax", "600")
    assert (cookie["secure"], cookie["httponly"], cookie["domain"]) == (True, True, "")


async def test_the_issuer_refuses_and_only_its_code_is_shown(edge: Edge) -> None:
    back = await consent(await begin(edge))
    page = await edge.http.get(changed(back, code=None, error="access_denied", error_description="Call 555"))
    assert (page.status_code, "did not sign you in (access_denied)" in page.text) == (403, True)
    assert "555" not in page.text

    back = await consent(await begin(edge))
    page = await edge.http.get(changed(back, code=None, error="<script>alert(1)</script>"))
    assert (page.status_code, "script>alert" in page.text) == (403, False)


async def test_signing_out_leads_to_the_issuer(edge: Edge, issuer: Issuer) -> None:
    await sign_in(edge)
    visit = Visit(edge.http)

    page = await visit.post("/dashboard/sign-out")

    assert page.status_code == 200
    location = page.text.partition('content="0;url=')[2].partition('"')[0].replace("&amp;", "&")
    assert location.startswith(f"{issuer.url}/end-session?client_id=tocsin&post_logout_redirect_uri=")
    assert "id_token_hint=eyJ" in location
    assert not await is_signed_in(edge)
    assert not {SESSION_COOKIE, f"tocsin_id_token_{COOKIE_SUFFIX}"} & set(edge.http.cookies)


async def test_signing_out_stays_here_if_the_issuer_has_no_address_for_it(edge: Edge, issuer: Issuer) -> None:
    issuer.metadata["end_session_endpoint"] = None
    await sign_in(edge)

    answer = await Visit(edge.http).post("/dashboard/sign-out")

    assert (answer.status_code, answer.headers["location"]) == (303, SIGN_IN)


async def test_every_session_of_a_person_can_be_ended_at_once(edge: Edge, issuer: Issuer) -> None:
    issuer.claims["sub"] = "u-2"
    await sign_in(edge)
    edge.http.cookies.clear()
    issuer.claims["sub"] = "u-1"
    for _ in range(2):
        await sign_in(edge)

    await Visit(edge.http).post("/dashboard/sign-out-everywhere")

    left = await edge.pool.fetch("select subject from dashboard_sessions")
    assert [row["subject"] for row in left] == ["u-2"]
    assert (await actions(edge))[-1][:2] == ("session.close_all", "oidc:u-1")


@pytest.mark.parametrize(("org", "status", "shown"), [("acme", 200, "acme"), (None, 403, None)])
async def test_the_organisation_of_a_person_is_that_of_the_claim(
    pool: Pool, issuer: Issuer, org: str | None, status: int, shown: str | None
) -> None:
    issuer.claims["org_id"] = org
    auth = AuthSettings(jwt_secret=SECRET, org_scoping=True)
    async with edge_of(pool, issuer.url, parts={"auth": auth}) as edge:
        page = await sign_in(edge)

        assert page.status_code == status
        assert await pool.fetchval("select org_id from dashboard_sessions") == shown
        if org is None:
            assert (await actions(edge))[0][0] == "session.refuse"
            assert "does not hold an organisation" in page.text


@pytest.mark.parametrize(("unscoped", "status"), [([], 403), ([Role.VIEWER], 200)])
async def test_a_session_from_before_people_were_bound_to_organisations_has_no_access(
    pool: Pool, issuer: Issuer, unscoped: list[Role], status: int
) -> None:
    issuer.claims["groups"] = ["staff"]
    async with edge_of(pool, issuer.url) as before:
        await sign_in(before)
        cookies = before.http.cookies
    auth = AuthSettings(jwt_secret=SECRET, org_scoping=True, unscoped_roles=unscoped)

    async with edge_of(pool, issuer.url, parts={"auth": auth}) as edge:
        edge.http.cookies = cookies

        assert (await edge.http.get(NOW)).status_code == status


async def test_a_hostile_name_is_shown_as_text(edge: Edge, issuer: Issuer) -> None:
    issuer.claims |= {"preferred_username": "<b>x</b>\u202e\n\x00 " + "y" * 500, "sub": "a|b" + "c" * 200}

    await sign_in(edge)

    row = await edge.pool.fetchrow("select name, subject from dashboard_sessions")
    assert row["name"] == "<b>x</b> " + "y" * 91
    shown = await Visit(edge.http).shown(NOW)
    assert "&lt;b&gt;x&lt;/b&gt;" in shown
    [(_, subject, actor)] = await actions(edge)
    assert (len(subject), actor.startswith("oidc#")) == (69, True)


async def test_keys_sign_in_beside_the_issuer(edge: Edge) -> None:
    key = (await edge.key(Role.VIEWER, "console"))["Authorization"].removeprefix("Bearer ")

    assert (await Visit(edge.http).sign_in(key)).status_code == 303
    assert await is_signed_in(edge)
