import base64

import aiohttp
import pytest

from tests.gateway.clients import ClientEvents, RunningGateway, bearer, token


async def test_events_arrive_as_json_beside_those_of_other_transports(
    gateway: RunningGateway, events: ClientEvents
) -> None:
    async with gateway.websocket() as socket, gateway.sse() as stream, gateway.websocket("bo") as other:
        opened = await socket.message()
        for client in (socket, stream, other):
            await client.live()
        entry_id = await events.append("e1", payload_bytes=b"\x01\xfe", trace_id="t1")
        await events.append("e2", "bo")

        got = await socket.message()
        assert (await stream.next()).body == got
        assert await other.ids(1) == ["e2"]

    assert opened["control"] == "open"
    assert 2_000 <= opened["retry_ms"] <= 4_000
    assert got == {
        "id": entry_id,
        "event_id": "e1",
        "event_type": "game.turn.ready",
        "payload": base64.b64encode(b"\x01\xfe").decode(),
        "trace_id": "t1",
    }


async def test_a_websocket_resumes_after_the_id_of_its_last_message(
    gateway: RunningGateway, events: ClientEvents
) -> None:
    async with gateway.websocket() as socket:
        position = await socket.live()
    ids = await events.append_all(["e1", "e2"])
    await gateway.reaches(ids[1])
    async with gateway.websocket(last_event_id=position) as socket:
        assert await socket.ids(2) == ["e1", "e2"]
        assert await socket.live() == ids[1]
        await events.append("e3")
        assert await socket.ids(1) == ["e3"]
    async with gateway.websocket(last_event_id=f"{2**60}-0") as socket:
        assert [(await socket.message())["control"] for _ in range(2)] == ["open", "reset"]


async def test_the_token_may_be_a_header(gateway: RunningGateway) -> None:
    async with gateway.http.ws_connect(f"{gateway.url}/v1/events/ws", headers=bearer()) as socket:
        assert (await socket.receive_json())["control"] == "open"


@pytest.mark.parametrize(
    ("seconds", "query", "code", "reason"),
    [
        (None, {}, 4401, "unauthenticated"),
        (-1, {}, 4401, "unauthenticated"),
        (600, {"last_event_id": "x"}, 1008, "invalid_query"),
    ],
)
async def test_a_browser_can_see_why_it_is_refused(
    gateway: RunningGateway, seconds: float | None, query: dict[str, str], code: int, reason: str
) -> None:
    if seconds is not None:
        query = query | {"access_token": token(seconds=seconds)}
    async with gateway.http.ws_connect(f"{gateway.url}/v1/events/ws", params=query) as socket:
        assert (await socket.receive_json())["control"] == "open"
        end = await socket.receive_json()
        closed = await socket.receive()

    assert (end["control"], end["reason"]) == ("end", reason)
    assert end["retry_ms"] > 0
    assert (closed.type, closed.data, closed.extra) == (aiohttp.WSMsgType.CLOSE, code, reason)


async def test_a_session_ends_when_its_token_expires(gateway: RunningGateway) -> None:
    async with gateway.websocket(seconds=1) as socket:
        last, code = await socket.end()

    assert (last["reason"], code) == ("token_expired", 4401)


async def test_a_client_that_sends_a_message_is_closed(gateway: RunningGateway) -> None:
    async with gateway.websocket() as socket:
        await socket.live()
        await socket.socket.send_str("hello")
        last, code = await socket.end()

    assert (last["reason"], code) == ("message_received", 1008)


@pytest.mark.parametrize("path", ["/", "/v1/events", "/v1/events/ws/"])
async def test_there_is_one_path_for_websockets(gateway: RunningGateway, path: str) -> None:
    with pytest.raises(aiohttp.WSServerHandshakeError) as error:
        await gateway.http.ws_connect(f"{gateway.url}{path}", headers=bearer())

    assert error.value.status == 404


async def test_websockets_can_be_switched_off(events: ClientEvents) -> None:
    async with events.gateway(websockets=False) as gateway:
        with pytest.raises(aiohttp.WSServerHandshakeError) as error:
            await gateway.http.ws_connect(f"{gateway.url}/v1/events/ws", headers=bearer())
        async with gateway.sse() as client:
            await client.live()

    assert error.value.status == 404
