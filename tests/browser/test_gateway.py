"""The gateway as pages use it: `EventSource` and `WebSocket` of a real browser."""

from uuid import uuid4

import pytest
from playwright.async_api import Browser
from redis.asyncio import Redis

from tests.acceptance.processes import free_port
from tests.gateway.clients import ClientEvents, token
from tests.javascript.packages import package
from tests.redis_servers import RedisServer
from tests.waiting import LONGEST_WAIT, until

LISTEN = """
([token, url]) => {
    window.got = [];
    const source = new EventSource(`${url}/v1/events?access_token=${token}`);
    source.onopen = () => got.push("open");
    source.onmessage = ({ data, lastEventId }) => {
        const event = JSON.parse(data);
        got.push(event.id === lastEventId ? event.event_id : "another id");
    };
    for (const name of ["reset", "end"]) {
        source.addEventListener(name, ({ data }) => got.push(`${name} ${JSON.parse(data).reason}`));
    }
}
"""
CONNECT = """
([token, url]) => {
    window.sent = [];
    const socket = new WebSocket(`${url.replace("http", "ws")}/v1/events/ws?access_token=${token}`);
    socket.onmessage = ({ data }) => {
        const message = JSON.parse(data);
        sent.push(message.event_id ?? message.control);
    };
    socket.onclose = ({ code, reason }) => sent.push(`${code} ${reason}`);
}
"""
HUB = """
async ([token, url, transport]) => {
    window.got ??= [];
    const connection = new signalR.HubConnectionBuilder()
        .withUrl(url, { accessTokenFactory: () => token, transport }).build();
    connection.on("notify", (event) => got.push(`${transport} ${event.event_id}`));
    await connection.start();
}
"""


@pytest.fixture
def events(redis: Redis, redis_server: RedisServer) -> ClientEvents:
    return ClientEvents(redis, redis_server.url, f"gateway:{uuid4().hex}")


async def test_a_page_resumes_by_itself_and_sees_why_a_session_ends(
    browser: Browser, events: ClientEvents
) -> None:
    quick = {"port": free_port(), "retry_seconds": 0.1, "reconnect_seconds": 0.1}
    await events.append("before")
    async with events.gateway(**quick) as gateway:
        page = await browser.new_page()
        await page.goto(f"{gateway.url}/a-page-of-the-same-host")
        for script in (LISTEN, CONNECT):
            await page.evaluate(script, [token("ada", 600), gateway.url])
        await page.wait_for_function("got.includes('open') && sent.includes('ping')")
    # Nothing but pings arrived yet: it is by their ids that the page resumes.
    await events.append("missed")
    async with events.gateway(**quick):
        await page.wait_for_function("got.includes('missed')")
        await events.append("live")
        await page.wait_for_function("got.includes('live')")
        got = await page.evaluate("got")
        while got[2:4] == ["open", "end unavailable"]:
            # The first gateway had not stopped when the page came back.
            del got[2:4]
        assert got == ["open", "end restart", "open", "missed", "live"]
        assert await page.evaluate("sent") == ["open", "ping", "end", "1012 restart"]
        await page.evaluate(CONNECT, ["no token", gateway.url])
        await page.wait_for_function("sent.length === 3")
        assert await page.evaluate("sent") == ["open", "end", "4401 unauthenticated"]
        await page.close()


async def test_a_page_comes_back_for_as_long_as_a_gateway_is_stopping(
    browser: Browser, events: ClientEvents
) -> None:
    """An `EventSource` that is refused would not connect again."""
    async with events.gateway(retry_seconds=0.05, reconnect_seconds=0.05) as gateway:
        page = await browser.new_page()
        await page.goto(f"{gateway.url}/a-page-of-the-same-host")
        await page.evaluate(LISTEN, [token("ada", 600), gateway.url])
        await page.wait_for_function("got.includes('open')")
        sessions = gateway.stream.sessions
        await sessions.drain(LONGEST_WAIT)
        await page.wait_for_function("got.filter((each) => each === 'end unavailable').length >= 2")
        sessions.is_stopping = False
        await until(lambda: sessions.has_user("ada"))
        await events.append("live")
        await page.wait_for_function("got.includes('live')")
        await page.close()


async def test_a_page_of_another_origin_connects_with_the_stock_client_of_signalr(
    browser: Browser, events: ClientEvents
) -> None:
    script = package("@microsoft/signalr") / "dist" / "browser" / "signalr.min.js"
    async with (
        events.gateway() as other,
        events.gateway(signalr_path="/hub", allowed_origins=[other.url]) as gateway,
    ):
        page = await browser.new_page()
        await page.goto(f"{other.url}/a-page-of-another-host")
        await page.add_script_tag(path=script)
        for transport in (1, 2):
            await page.evaluate(HUB, [token("ada", 600), f"{gateway.url}/hub", transport])
        await events.append("e1")
        await page.wait_for_function("got.length === 2")
        assert await page.evaluate("got.sort()") == ["1 e1", "2 e1"]
        await page.close()
