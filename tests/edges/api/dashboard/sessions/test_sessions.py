"""Sessions of the dashboard: signing in and out, and what ends them."""

from http.cookies import SimpleCookie

import httpx
import msgspec
import pytest

from tests.edges.api.dashboard.visits import SESSION_COOKIE, SIGN_IN, VISITOR_COOKIE, Visit, signed_in
from tests.edges.edge import Edge, running, services
from tocsin.api.auth.roles import Role
from tocsin.api.settings import DashboardSettings
from tocsin.store.pool import Pool

NOW = "/dashboard/now"


async def secret(edge: Edge, role: Role = Role.VIEWER) -> str:
    return (await edge.key(role, "console"))["Authorization"].removeprefix("Bearer ")


async def test_a_session_opens_with_a_key_and_ends_when_signing_out(edge: Edge) -> None:
    visit = await signed_in(edge, Role.VIEWER)
    assert (await visit.get("/dashboard")).headers["location"] == NOW
    assert "Sign out" in await visit.shown(NOW)
    cookie = edge.http.cookies[SESSION_COOKIE]

    answer = await visit.post("/dashboard/sign-out")

    assert (answer.status_code, answer.headers["location"]) == (303, SIGN_IN)
    assert SESSION_COOKIE not in edge.http.cookies
    stolen = await edge.http.get(NOW, headers={"Cookie": f"{SESSION_COOKIE}={cookie}"})
    assert stolen.status_code == 303


async def test_every_session_of_a_key_can_be_ended_at_once(edge: Edge) -> None:
    key = await secret(edge)
    visit = Visit(edge.http)
    cookies = []
    for _ in range(2):
        edge.http.cookies.clear()
        await visit.sign_in(key)
        cookies.append(edge.http.cookies[SESSION_COOKIE])

    await visit.post("/dashboard/sign-out-everywhere")

    for cookie in cookies:
        answer = await edge.http.get(NOW, headers={"Cookie": f"{SESSION_COOKIE}={cookie}"})
        assert answer.status_code == 303
    actions = await edge.pool.fetch("select action, actor, details::text from audit order by id")
    assert [row["action"] for row in actions] == ["session.open", "session.open", "session.close_all"]
    assert actions[2]["details"] == '{"count": 2}'


async def test_a_session_ends_with_its_key(edge: Edge) -> None:
    visit = await signed_in(edge, Role.VIEWER)
    await visit.shown(NOW)

    await edge.pool.execute("update api_keys set revoked_at = now()")

    assert (await visit.get(NOW)).status_code == 303


async def test_a_session_ends_with_the_overlap_of_a_rotated_key(edge: Edge) -> None:
    visit = await signed_in(edge, Role.VIEWER)

    await edge.pool.execute("update api_keys set expires_at = now() + interval '1 hour'")
    await visit.shown(NOW)
    await edge.pool.execute("update api_keys set expires_at = now()")

    assert (await visit.get(NOW)).status_code == 303


async def test_a_session_ends_after_its_hours_and_is_deleted_by_the_next(pool: Pool) -> None:
    async with running(services(pool, dashboard=DashboardSettings(session_hours=1))) as edge:
        visit = await signed_in(edge, Role.VIEWER)
        left = await pool.fetchval("select expires_at - now() from dashboard_sessions")
        assert 3_500 < left.total_seconds() <= 3_600
        await pool.execute("update dashboard_sessions set expires_at = now()")

        assert (await visit.get(NOW)).status_code == 303

        await signed_in(edge, Role.VIEWER)
        assert await pool.fetchval("select count(*) from dashboard_sessions") == 1


async def test_the_database_does_not_know_the_id_of_a_session(edge: Edge) -> None:
    await signed_in(edge, Role.VIEWER)

    cookie = edge.http.cookies[SESSION_COOKIE]
    [stored] = await edge.pool.fetch("select id_hash from dashboard_sessions")

    assert len(stored["id_hash"]) == 32
    assert cookie.encode() not in stored["id_hash"]


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_the_cookie_is_kept_from_scripts_and_other_sites(edge: Edge, scheme: str) -> None:
    edge.http.headers["X-Forwarded-Proto"] = scheme
    visit = Visit(edge.http)
    form = await edge.http.get(SIGN_IN)
    visitor = SimpleCookie(form.headers["set-cookie"])[VISITOR_COOKIE].value
    token = form.text.partition('name="csrf_token" value="')[2][:64]

    answer = await visit.http.post(
        SIGN_IN,
        data={"csrf_token": token, "key": await secret(edge)},
        headers={"Cookie": f"{VISITOR_COOKIE}={visitor}"},
    )

    [cookie] = [each for each in answer.headers.get_list("set-cookie") if each.startswith(SESSION_COOKIE)]
    assert {"HttpOnly", "Path=/dashboard", "SameSite=strict", "Max-Age=43200"} <= set(cookie.split("; "))
    assert ("Secure" in cookie.split("; ")) == (scheme == "https")


async def test_an_unknown_key_is_refused_without_repeating_it(edge: Edge) -> None:
    given = "tocsin_" + "a" * 43

    answer = await Visit(edge.http).sign_in(given)

    assert answer.status_code == 403
    assert "not known or was revoked" in answer.text
    assert given not in answer.text


async def test_the_form_to_sign_in_is_bound_to_its_browser(edge: Edge) -> None:
    visit, key = Visit(edge.http), await secret(edge)
    token = await visit.csrf_token(SIGN_IN)
    edge.http.cookies.clear()

    assert (await visit.post(SIGN_IN, token, key=key)).status_code == 403
    assert (await visit.sign_in(key)).status_code == 303


async def test_a_form_from_another_site_is_refused_even_with_its_token(edge: Edge) -> None:
    visit = await signed_in(edge, Role.VIEWER)
    token = await visit.csrf_token()

    answer = await edge.http.post(
        "/dashboard/sign-out", data={"csrf_token": token}, headers={"Sec-Fetch-Site": "cross-site"}
    )

    assert answer.status_code == 403
    await visit.shown(NOW)


@pytest.mark.parametrize(
    ("wanted", "shown"),
    [
        ("/dashboard/now?x=1&y=2026-01-01T00:00:00Z", "/dashboard/now?x=1&y=2026-01-01T00:00:00Z"),
        ("https://example.org/", "/dashboard"),
        ("//example.org/dashboard", "/dashboard"),
        ("/dashboard//example.org", "/dashboard"),
        ("/dashboard/\\example.org", "/dashboard"),
        ("/dashboard/now\r\nSet-Cookie: a=b", "/dashboard"),
        ("/v1/notifications", "/dashboard"),
        ("/dashboard/../v1/notifications\n", "/dashboard"),
    ],
)
async def test_signing_in_leads_only_to_the_dashboard(edge: Edge, wanted: str, shown: str) -> None:
    answer = await Visit(edge.http).sign_in(await secret(edge), next=wanted)

    assert (answer.status_code, answer.headers["location"]) == (303, shown)


async def test_every_page_has_the_headers_that_protect_it(edge: Edge) -> None:
    visit = Visit(edge.http)
    answers = [await visit.get(SIGN_IN), await visit.get(NOW)]
    visit = await signed_in(edge, Role.VIEWER)
    answers += [await visit.get(NOW), await visit.post("/dashboard/sign-out", "wrong")]

    for answer in answers:
        policy = dict(part.split(" ", 1) for part in answer.headers["content-security-policy"].split("; "))
        assert (policy["default-src"], policy["script-src"], policy["style-src"]) == (
            "'none'",
            "'self'",
            "'self'",
        )
        assert policy["frame-ancestors"] == "'none'"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "no-store"


async def test_only_the_origin_that_is_set_may_frame_the_pages(pool: Pool) -> None:
    framed_by = DashboardSettings(framed_by="http://127.0.0.1:8480")

    async with running(services(pool, dashboard=framed_by)) as edge:
        shown, led = await edge.http.get(SIGN_IN), await edge.http.get(NOW)

    for answer in (shown, led):
        assert answer.headers["content-security-policy"].endswith("frame-ancestors http://127.0.0.1:8480")
        assert "x-frame-options" not in answer.headers


@pytest.mark.parametrize("origin", ["*", "'self'", "http://a.example; script-src *", "http://a.example/path"])
def test_what_is_no_origin_cannot_frame_the_pages(origin: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"framed_by": origin}, DashboardSettings)


async def test_assets_are_public_and_kept_by_version(edge: Edge) -> None:
    page = (await edge.http.get(SIGN_IN)).text
    address = page.partition('rel="stylesheet" href="')[2].partition('"')[0]

    kept, unversioned = await edge.http.get(address), await edge.http.get(address.partition("?")[0])

    assert "immutable" in kept.headers["cache-control"]
    assert kept.headers["content-type"] == "text/css; charset=utf-8"
    assert unversioned.headers["cache-control"] == "no-cache"
    for name in ("..%2faccess.py", "access.py", "x" * 300):
        assert (await edge.http.get(f"/dashboard/assets/{name}")).status_code == 404


async def test_bodies_that_are_no_forms_are_refused(edge: Edge) -> None:
    visit = await signed_in(edge, Role.VIEWER)
    many = "&".join(f"a{number}=b" for number in range(2_000))

    for content, content_type, status in (
        (b"{}", "application/json", 400),
        (many.encode(), "application/x-www-form-urlencoded", 400),
        (b"csrf_token=%ff\xff", "application/x-www-form-urlencoded", 400),
        (b"a" * 300_000, "application/x-www-form-urlencoded", 413),
    ):
        answer: httpx.Response = await visit.http.post(
            "/dashboard/sign-out", content=content, headers={"Content-Type": content_type}
        )
        assert answer.status_code == status, content[:20]


async def test_without_the_dashboard_there_are_no_such_paths(pool: Pool) -> None:
    async with running(services(pool, dashboard=DashboardSettings(enabled=False))) as edge:
        assert (await edge.http.get(SIGN_IN)).status_code == 404
