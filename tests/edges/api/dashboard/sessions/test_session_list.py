"""The page of sessions: one's own, those of everybody for admins, and ending them."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import httpx
import pytest

from tests.edges.api.dashboard.visits import Visit
from tests.edges.edge import Edge, running, services
from tocsin.api.auth.api_keys import create_key
from tocsin.api.auth.roles import Role
from tocsin.api.settings import AuthSettings
from tocsin.engine.clock import utc_now
from tocsin.store.pool import Pool

SESSIONS = "/dashboard/sessions"


class Browsers:
    """Browsers that sign in side by side, each with cookies of its own."""

    def __init__(self, edge: Edge, exits: AsyncExitStack) -> None:
        self._edge = edge
        self._exits = exits

    async def open(self, role: Role, producer: str, org_id: str | None = None) -> Visit:
        """Sign in with a new key."""
        made = await create_key(self._edge.pool, producer, role, utc_now(), org_id=org_id)
        return await self.open_with(made.secret)

    async def open_with(self, key: str) -> Visit:
        client = httpx.AsyncClient(base_url=self._edge.http.base_url, timeout=20)
        visit = Visit(await self._exits.enter_async_context(client))
        assert (await visit.sign_in(key)).status_code == 303
        return visit


@pytest.fixture
async def browsers(edge: Edge) -> AsyncIterator[Browsers]:
    async with AsyncExitStack() as exits:
        yield Browsers(edge, exits)


async def is_open(visit: Visit) -> bool:
    return (await visit.get("/dashboard/now")).status_code == 200


async def digest_of(edge: Edge, producer: str) -> str:
    found = await edge.pool.fetchval(
        """select encode(id_hash, 'hex') from dashboard_sessions
        where key_id in (select id from api_keys where producer = $1)""",
        producer,
    )
    return str(found)


async def test_an_admin_lists_all_sessions_and_ends_one(edge: Edge, browsers: Browsers) -> None:
    admin = await browsers.open(Role.ADMIN, "root")
    viewer = await browsers.open(Role.VIEWER, "support")
    assert ">support</th>" in await admin.shown(SESSIONS)

    answer = await admin.post(f"{SESSIONS}/end", session=await digest_of(edge, "support"))

    assert (answer.status_code, answer.headers["location"]) == (303, SESSIONS)
    assert not await is_open(viewer)
    assert "The session of support has ended." in await admin.shown(SESSIONS)
    last = await edge.pool.fetchrow("select action, subject, actor from audit order by id desc limit 1")
    assert (last["action"], last["subject"]) == ("session.close", "key:support")
    assert last["actor"].startswith("root (key ")


async def test_others_see_and_end_their_own_alone(edge: Edge, browsers: Browsers) -> None:
    await browsers.open(Role.ADMIN, "root")
    operator = await browsers.open(Role.OPERATOR, "support")
    shown = await operator.shown(SESSIONS)
    assert (">support</th>" in shown, ">root</th>" in shown, "everybody" in shown) == (True, False, False)

    for digest in (await digest_of(edge, "root"), "0" * 64):
        assert (await operator.post(f"{SESSIONS}/end", session=digest)).status_code == 404
    assert (await operator.post(f"{SESSIONS}/end-others", whose="all")).status_code == 404
    assert (await operator.post(f"{SESSIONS}/end", session="no digest")).status_code == 422
    assert await edge.pool.fetchval("select count(*) from dashboard_sessions") == 2


async def test_the_other_sessions_of_ones_own_end_at_once(edge: Edge, browsers: Browsers) -> None:
    key = (await create_key(edge.pool, "support", Role.VIEWER, utc_now())).secret
    first, second = await browsers.open_with(key), await browsers.open_with(key)
    other = await browsers.open(Role.VIEWER, "sales")

    await first.post(f"{SESSIONS}/end-others", whose="own")

    assert "1 other session has ended." in await first.shown(SESSIONS)
    assert [await is_open(each) for each in (first, second, other)] == [True, False, True]


async def test_an_admin_ends_all_sessions_but_this_one(edge: Edge, browsers: Browsers) -> None:
    admin, other = await browsers.open(Role.ADMIN, "root"), await browsers.open(Role.ADMIN, "second")

    await admin.post(f"{SESSIONS}/end-others", whose="all")

    assert [await is_open(each) for each in (admin, other)] == [True, False]
    details = await edge.pool.fetchval("select details::text from audit where action = 'session.close_all'")
    assert details == '{"count": 1}'


async def test_an_admin_of_an_organisation_sees_no_session_of_others(pool: Pool) -> None:
    auth = AuthSettings(jwt_secret="a secret of at least thirty-two bytes", org_scoping=True)
    async with running(services(pool, auth=auth)) as edge, AsyncExitStack() as exits:
        browsers = Browsers(edge, exits)
        await browsers.open(Role.ADMIN, "root")
        bound = await browsers.open(Role.ADMIN, "acme-admin", org_id="acme")

        assert ">root</th>" not in await bound.shown(SESSIONS)
        assert (await bound.post(f"{SESSIONS}/end-others", whose="all")).status_code == 404
