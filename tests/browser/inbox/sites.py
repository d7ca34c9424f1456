"""A page with the component, under a strict Content-Security-Policy, before a real API and a real worker."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import httpx
import jwt
from litestar.response.base import ASGIResponse
from litestar.types import ASGIApp
from playwright.async_api import Browser, BrowserContext, ConsoleMessage, Locator, Page, expect

from tests.catalogs import shipped
from tests.databases import SCHEMA
from tests.edges.edge import SECRET, listening
from tests.running import running
from tests.waiting import found
from tocsin.api.auth.api_keys import create_key
from tocsin.api.auth.roles import Role
from tocsin.compose.api import open_api
from tocsin.compose.worker import open_worker
from tocsin.domain.ids import uuid7
from tocsin.engine.clock import utc_now
from tocsin.gateway.sessions import Ending
from tocsin.settings.load import load_settings
from tocsin.store.inbox.notices import Notice, notify
from tocsin.store.pool import Pool, PoolSettings, open_pool

ENVIRONMENT = {
    "TOCSIN_AUTH__JWT_SECRET": SECRET,
    # It stays for the whole run, and all tests share the connections of one server.
    "TOCSIN_POOL__SIZE": "3",
    "TOCSIN_INBOX__ENABLED": "true",
    "TOCSIN_QUIET_HOURS__ENABLED": "false",
    "TOCSIN_GATEWAY__RETRY_SECONDS": "0.1",
    "TOCSIN_WEBPUSH__ENABLED": "true",
    "TOCSIN_WEBPUSH__SUBJECT": "mailto:ops@example.com",
}
POLICY = (
    "default-src 'none'; script-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "require-trusted-types-for 'script'; trusted-types tocsin-inbox"
)
PAGE = """<!doctype html>
<html lang="en">
<head>
  <meta charset="utf-8"><title>A page</title>
  <meta name="viewport" content="width=device-width"><meta name="color-scheme" content="light dark">
  <link rel="icon" href="data:,">
  <script type="module" src="/v1/inbox/component/tocsin-inbox.js"></script>
</head>
<body>
  <button>Before</button>
  <div align="{align}"><tocsin-inbox {attributes}></tocsin-inbox></div>
</body>
</html>"""


def token(user_id: str, seconds: float = 600) -> str:
    """Sign a token as an application's login does."""
    return jwt.encode({"sub": user_id, "exp": utc_now().timestamp() + seconds}, SECRET, "HS256")


class InboxSite:
    """A running API with the page, and what tests do to people's inboxes."""

    def __init__(self, url: str, pool: Pool, key: str, live: Any) -> None:
        self.url = url
        self.live = live
        self._pool = pool
        self._key = key

    async def send(self, user_id: str, **payload: str) -> None:
        """Send an announcement as a producer does."""
        intent = {
            "type": "announcement",
            "audience": {"users": [user_id]},
            "payload": {"text": "Text", **payload},
            "idempotency_key": str(uuid7()),
        }
        headers = {"Authorization": f"Bearer {self._key}"}
        async with httpx.AsyncClient() as http:
            answer = await http.post(f"{self.url}/v1/notifications", json=intent, headers=headers)
        assert answer.status_code == 202, answer.text

    def expire(self, user_id: str) -> None:
        """End the sessions of a person as when their tokens expire."""
        for session in tuple(self.live.sessions._by_user[user_id]):
            session.finish(Ending.TOKEN_EXPIRED)

    async def put(self, user_id: str, title: str, **fields: str | None) -> str:
        """Store an item, as a settlement does."""
        item = uuid7()
        values = {"body": "Text", "link": None, "icon": None, **fields}
        async with self._pool.acquire() as connection, connection.transaction():
            await connection.execute(
                """
                insert into inbox_items (
                    id, user_id, delivery_id, type, category, title, body, link, icon, data, created_at
                ) values ($1, $2, $1, 'announcement', 'announcements', $3, $4, $5, $6, '{}', $7)
                """,
                item,
                user_id,
                title,
                values["body"],
                values["link"],
                values["icon"],
                utc_now(),
            )
            await notify(connection, [Notice("created", user_id, item)])
        return str(item)


@asynccontextmanager
async def running_site(url: str) -> AsyncIterator[InboxSite]:
    """Run an API with the page, and a worker."""
    settings = load_settings(ENVIRONMENT, Path("/dev/null"))
    async with AsyncExitStack() as exits:
        app = await exits.enter_async_context(open_api(settings, url))
        worker = await exits.enter_async_context(open_worker(settings, url, shipped()))
        await exits.enter_async_context(running(worker))
        address = await exits.enter_async_context(listening(_with_page(app)))
        pool = await exits.enter_async_context(open_pool(url, SCHEMA, PoolSettings(size=2)))
        live = app.state.live

        async def is_live() -> bool:
            return live.source.fault is None

        await found(is_live)
        key = await create_key(pool, "shop", Role.PRODUCER, utc_now())
        yield InboxSite(address, pool, key.secret, live)
        await live.drain(5)


def _with_page(app: ASGIApp) -> ASGIApp:
    """Return an app that answers `/page` with the component, whose attributes are those of the query."""

    async def answer(scope: Any, receive: Any, send: Any) -> None:
        if scope.get("path") != "/page":
            await app(scope, receive, send)
            return
        query = {name: values[0] for name, values in parse_qs(scope["query_string"].decode()).items()}
        align = query.pop("align", "right")
        attributes = " ".join(f'{name}="{value}"' for name, value in query.items())
        body = PAGE.format(align=align, attributes=attributes).encode()
        headers = {"Content-Security-Policy": f"{POLICY}; img-src data:"}
        await ASGIResponse(body=body, media_type="text/html", headers=headers)(scope, receive, send)

    return answer


class Tab:
    """A tab of a browser with the page, and everything that it complained of."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.complaints: list[str] = []
        page.on("console", self._hear)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))

    @property
    def bell(self) -> Locator:
        return self.page.locator("tocsin-inbox .bell")

    @property
    def badge(self) -> Locator:
        return self.page.locator("tocsin-inbox .badge")

    @property
    def panel(self) -> Locator:
        return self.page.locator("tocsin-inbox .panel")

    @property
    def titles(self) -> Locator:
        return self.panel.locator(".title")

    def row(self, title: str) -> Locator:
        return self.panel.get_by_role("listitem").filter(has_text=title)

    async def expect_unread(self, badge: str) -> None:
        """Wait until the bell shows a count; the empty one is hidden."""
        if badge:
            await expect(self.badge).to_have_text(badge)
        await expect(self.badge).to_be_visible(visible=bool(badge))

    def _hear(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            self.complaints.append(message.text)


async def open_tab(context: BrowserContext, site: InboxSite, **attributes: str) -> Tab:
    """Open the page for a person and wait until it is live."""
    tab = Tab(await context.new_page())
    query = httpx.QueryParams(attributes)
    await tab.page.goto(f"{site.url}/page?{query}")
    await expect(tab.bell).to_be_visible()
    return tab


async def new_context(browser: Browser, **options: Any) -> BrowserContext:
    """Make a context in which nothing moves."""
    given: Mapping[str, Any] = {"reduced_motion": "reduce", **options}
    return await browser.new_context(**given)
