"""The API process serves live inboxes beside everything else, on the same port and without Redis."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.edges.edge import SECRET, listening, person
from tests.gateway.clients import SseClient, WebSocketClient
from tests.inboxes import add_items
from tests.waiting import found
from tocsin.compose.api import open_api
from tocsin.settings.load import load_settings
from tocsin.store.inbox.notices import Notice, notify
from tocsin.store.pool import Pool

ENVIRONMENT = {"TOCSIN_AUTH__JWT_SECRET": SECRET, "TOCSIN_INBOX__ENABLED": "true"}


class Site:
    """An API process, a client of it, and the app within."""

    def __init__(self, url: str, http: aiohttp.ClientSession, app: Any) -> None:
        self.url = url
        self.http = http
        self.app = app


@pytest.fixture
async def site(database_url: str) -> AsyncIterator[Site]:
    settings = load_settings(ENVIRONMENT, Path("/dev/null"))
    async with (
        open_api(settings, database_url) as app,
        listening(app, websockets=True) as url,
        aiohttp.ClientSession() as http,
    ):

        async def is_live() -> bool:
            return app.state.live.source.fault is None

        await found(is_live)
        yield Site(url, http, app)


async def created(pool: Pool, user_id: str) -> str:
    async with pool.acquire() as connection, connection.transaction():
        (item,) = await add_items(connection, user_id, 1)
        await notify(connection, [Notice("created", user_id, item)])
    return str(item)


async def test_both_transports_are_live_beside_the_calls(site: Site, pool: Pool) -> None:
    token = person("ada")["Authorization"].removeprefix("Bearer ")
    async with (
        site.http.get(f"{site.url}/v1/inbox/stream", headers=person("ada")) as response,
        site.http.ws_connect(f"{site.url}/v1/inbox/ws", params={"access_token": token}) as socket,
    ):
        assert response.headers["content-type"].startswith("text/event-stream")
        stream, tab = await SseClient(response).live(), WebSocketClient(socket)
        await tab.live()
        item = await created(pool, "ada")
        for body in ((await stream.next()).body, await tab.message()):
            assert (body["event"], body["item"]["id"]) == ("item.created", item)

        async with site.http.post(f"{site.url}/v1/inbox/{item}/read", headers=person("ada")) as answer:
            assert answer.status == 200
        for body in ((await stream.next()).body, await tab.message()):
            assert (body["event"], body["item"]["id"], body["unread"]) == ("item.changed", item, 0)


async def test_a_session_ends_when_its_client_leaves(site: Site) -> None:
    async with site.http.get(f"{site.url}/v1/inbox/stream", headers=person("ada")) as response:
        await SseClient(response).live()
        assert site.app.state.live.sessions.has_user("ada")

    async def is_gone() -> bool:
        return not site.app.state.live.sessions.has_user("ada")

    await found(is_gone)


async def test_sessions_end_before_the_process_stops(site: Site) -> None:
    async with site.http.get(f"{site.url}/v1/inbox/stream", headers=person("ada")) as response:
        stream = await SseClient(response).live()
        draining = asyncio.create_task(site.app.state.live.drain(5))

        assert (await stream.next()).body["reason"] == "restart"
        await draining


async def test_nobody_connects_without_a_token_and_no_other_path_has_websockets(site: Site) -> None:
    async with site.http.get(f"{site.url}/v1/inbox/stream") as answer:
        assert (answer.status, (await answer.json())["code"]) == (401, "unauthenticated")
    async with site.http.post(f"{site.url}/v1/inbox/stream", headers=person("ada")) as answer:
        assert answer.status == 405
    with pytest.raises(aiohttp.WSServerHandshakeError):
        await site.http.ws_connect(f"{site.url}/v1/notifications")
    async with site.http.ws_connect(f"{site.url}/v1/inbox/ws") as socket:
        assert (await WebSocketClient(socket).end())[1] == 4401
