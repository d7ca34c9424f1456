"""The dashboard as a browser meets it: cookies, forms and redirects."""

import re
from typing import Any

import httpx
import msgspec

from tests.edges.edge import COOKIE_SUFFIX, Edge
from tocsin.api.auth.api_keys import create_key
from tocsin.api.auth.roles import Role
from tocsin.engine.clock import utc_now

SIGN_IN = "/dashboard/sign-in"
SESSION_COOKIE = f"tocsin_session_{COOKIE_SUFFIX}"
VISITOR_COOKIE = f"tocsin_visitor_{COOKIE_SUFFIX}"
_TOKEN = re.compile(r'name="csrf_token" value="([0-9a-f]{64})"')


class Visit(msgspec.Struct, frozen=True):
    """A browser that may have signed in."""

    http: httpx.AsyncClient

    async def get(self, path: str, **options: Any) -> httpx.Response:
        return await self.http.get(path, **options)

    async def shown(self, path: str, **query: str) -> str:
        """Return a page that must be there."""
        answer = await self.get(path, params=query or None)
        assert answer.status_code == 200, answer.text
        return answer.text

    async def post(self, path: str, token: str | None = None, /, **fields: Any) -> httpx.Response:
        """Post a form with the token of the session, or another one."""
        given = await self.csrf_token() if token is None else token
        return await self.http.post(path, data={"csrf_token": given, **fields})

    async def csrf_token(self, path: str = "/dashboard") -> str:
        answer = await self.http.get(path, follow_redirects=True)
        found = _TOKEN.search(answer.text)
        assert found, answer.text
        return found[1]

    async def sign_in(self, key: str, **fields: str) -> httpx.Response:
        return await self.post(SIGN_IN, await self.csrf_token(SIGN_IN), key=key, **fields)


async def signed_in(edge: Edge, role: Role, producer: str = "console", org_id: str | None = None) -> Visit:
    """Sign in with a new key of a role; the edge's own client becomes that browser."""
    made = await create_key(edge.pool, producer, role, utc_now(), org_id=org_id)
    edge.http.cookies.clear()
    visit = Visit(edge.http)
    answer = await visit.sign_in(made.secret)
    assert answer.status_code == 303, answer.text
    return visit
