import asyncio

import aiohttp
import pytest

from tests.gateway.clients import ClientEvents, RunningGateway, bearer

APP = "https://app.example.com"


async def test_pages_of_other_origins_are_refused_unless_they_are_allowed(events: ClientEvents) -> None:
    async with events.gateway(allowed_origins=[APP]) as gateway:
        for origin, status in ((APP, 200), (gateway.url, 200), ("https://evil.example", 403), ("null", 403)):
            headers = bearer() | {"Origin": origin}
            async with gateway.http.get(f"{gateway.url}/v1/events", headers=headers) as response:
                assert response.status == status
                allowed = response.headers.get("access-control-allow-origin")
                assert allowed == (origin if status == 200 else None)
            assert await _websocket_status(gateway, origin) == (101 if status == 200 else 403)


async def test_any_origin_can_be_allowed(events: ClientEvents) -> None:
    async with events.gateway(allowed_origins=["*"]) as gateway:
        assert await _websocket_status(gateway, "https://evil.example") == 101


async def test_by_default_only_pages_of_the_same_host_connect(gateway: RunningGateway) -> None:
    assert await _websocket_status(gateway, gateway.url) == 101
    for origin in (APP, "http://127.0.0.1:1", "https://[", "null"):
        assert await _websocket_status(gateway, origin) == 403


async def test_a_page_may_ask_first_and_read_why_it_was_refused(events: ClientEvents) -> None:
    async with events.gateway(allowed_origins=[APP]) as gateway:
        asked = {"Origin": APP, "Access-Control-Request-Headers": "authorization,last-event-id"}
        async with gateway.http.options(f"{gateway.url}/v1/events", headers=asked) as response:
            assert response.status == 204
            assert response.headers["access-control-allow-origin"] == APP
            assert response.headers["access-control-allow-methods"] == "GET"
            assert "last-event-id" in response.headers["access-control-allow-headers"]
        status, _, headers = await gateway.refusal(headers={"Origin": APP})

        assert (status, headers["access-control-allow-origin"]) == (401, APP)
        assert headers["vary"] == "Origin"
        assert "retry-after" in headers["access-control-expose-headers"]


async def test_what_is_not_offered_is_refused(gateway: RunningGateway) -> None:
    async with gateway.http.post(f"{gateway.url}/v1/events", headers=bearer()) as response:
        assert (response.status, response.headers["allow"]) == (405, "GET, OPTIONS")
    for path in ("/", "/v1/events/ws", "/healthz"):
        async with gateway.http.get(f"{gateway.url}{path}", headers=bearer()) as response:
            assert response.status == 404
    for query in ("&".join("x=1" for _ in range(30)), "x" * 20_000):
        async with gateway.http.get(f"{gateway.url}/v1/events?{query}", headers=bearer()) as response:
            assert response.status == 400


@pytest.mark.parametrize("name", ["authorization", "last-event-id", "origin", "host"])
async def test_headers_of_any_bytes_are_answered(gateway: RunningGateway, name: str) -> None:
    reader, writer = await _raw(gateway, f"{name}: ".encode() + b"\xff\xfe")
    answer = await reader.readline()
    writer.close()

    assert answer.split()[1] in {b"400", b"401", b"403", b"422"}


async def _raw(gateway: RunningGateway, header: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    host, _, port = gateway.url.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(b"GET /v1/events HTTP/1.1\r\nhost: x\r\n" + header + b"\r\n\r\n")
    return reader, writer


async def _websocket_status(gateway: RunningGateway, origin: str) -> int:
    try:
        async with gateway.http.ws_connect(
            f"{gateway.url}/v1/events/ws", headers=bearer(), origin=origin
        ) as socket:
            assert (await socket.receive_json())["control"] == "open"
            return 101
    except aiohttp.WSServerHandshakeError as error:
        return error.status
