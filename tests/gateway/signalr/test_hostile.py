"""Clients that break the protocol, take the connections of others, or fall silent."""

import asyncio
import os
import struct

import aiohttp
import psutil
import pytest

from tests.gateway.clients import UPGRADE, ClientEvents, RunningGateway, bearer, counted, token
from tests.gateway.signalr.clients import (
    HANDSHAKE,
    PATH,
    PING,
    HubStream,
    hub_socket,
    hub_stream,
    negotiate,
)
from tests.waiting import LONGEST_WAIT, until
from tocsin.gateway.signalr.protocol import LARGEST_RECORD
from tocsin.telemetry import metrics

DEEP = b'{"type":1,"arguments":' + b"[" * 2_000 + b"]" * 2_000 + b"}\x1e"
MALFORMED = [
    b"\x1e",
    b"null\x1e",
    b"[]\x1e",
    b"{}\x1e",
    b'{"type":"6"}\x1e',
    b'{"type":6.5}\x1e',
    b'{"type":1,"invocationId":7}\x1e',
    b'{"type":1,"invocationId":"\\ud800"}\x1e',
    b'{"type":6\x1e',
    b"\xff\x1e",
    DEEP,
    HANDSHAKE,
    b"x" * LARGEST_RECORD + b"x",
]
HANDSHAKES = [
    b'{"protocol":"messagepack","version":1}\x1e',
    b'{"protocol":"json","version":2}\x1e',
    b'{"protocol":"json"}\x1e',
    b"GET / HTTP/1.1\x1e",
    PING,
    DEEP,
]


@pytest.mark.parametrize("record", MALFORMED, ids=range(len(MALFORMED)))
async def test_a_message_that_is_none_ends_the_session_for_good(hub: RunningGateway, record: bytes) -> None:
    async with hub_socket(hub) as socket:
        await socket.agree()
        # In several frames, since one has a bound of its own.
        for start in range(0, len(record), 4_000):
            await socket.socket.send_bytes(record[start : start + 4_000])
        [close] = await socket.rest()
    async with hub_stream(hub) as stream:
        await _agree(stream)
        for start in range(0, len(record), 4_000):
            await stream.post(record[start : start + 4_000])
        streamed = await stream.message()
        with pytest.raises(EOFError):
            await stream.message()

    assert close == streamed
    assert (close["type"], close["allowReconnect"]) == (7, False)
    assert close["error"].startswith("A message")
    assert socket.close_code == 1002


@pytest.mark.parametrize("record", HANDSHAKES, ids=range(len(HANDSHAKES)))
async def test_a_handshake_that_fails_is_answered_with_an_error(hub: RunningGateway, record: bytes) -> None:
    async with hub_socket(hub) as socket:
        await socket.send(record)
        [answer] = await socket.rest()
    async with hub_stream(hub) as stream:
        assert await stream.post(record) == 200
        assert await stream.message() == answer

    assert list(answer) == ["error"]
    assert "messagepack" not in answer["error"]


async def test_messages_may_come_in_pieces_and_several_at_once(
    hub: RunningGateway, events: ClientEvents
) -> None:
    call = b'{"type":1,"target":"x","arguments":[{"\\u001e":1}],"invocationId":"\\n\\u001e7"}\x1e'
    ignored = b'{"type":2}\x1e{"type":3}\x1e{"type":5}\x1e{"type":8}\x1e{"type":9}\x1e{"type":99}\x1e'
    silent = b'{"type":1,"target":"x","arguments":[]}\x1e'
    stream_call = b'{"type":4,"target":"x","headers":{"a":"b"},"arguments":[],"invocationId":"8"}\x1e'
    expected = [
        {"type": 3, "invocationId": id_, "error": "The hub has no methods."} for id_ in ("\n\x1e7", "8")
    ]
    everything = ignored + silent + call + PING + stream_call
    async with hub_socket(hub) as socket, hub_stream(hub) as stream:
        for byte in HANDSHAKE:
            await socket.socket.send_bytes(bytes([byte]))
        assert [await socket.message() for _ in range(2)] == [{}, {"type": 6}]
        await socket.send(everything)
        assert [await socket.message() for _ in range(2)] == expected
        for piece in (HANDSHAKE[:5], HANDSHAKE[5:]):
            await stream.post(piece)
        assert [await stream.message() for _ in range(2)] == [{}, {"type": 6}]
        await stream.post(everything)
        assert [await stream.message() for _ in range(2)] == expected
        await events.append("e1")
        for client in (socket, stream):
            message = await client.message()
            assert (message["type"], message["target"]) == (1, "notify")
            assert [event["event_id"] for event in message["arguments"]] == ["e1"]
        await socket.send(b'{"type":7}\x1e')
        assert await socket.rest() == []
        assert socket.close_code == 1000
        await stream.post(b'{"type":7}\x1e')
        with pytest.raises((EOFError, aiohttp.ClientPayloadError)):
            await stream.message()


async def test_a_frame_or_post_that_is_too_large_is_refused(hub: RunningGateway) -> None:
    async with hub_socket(hub) as socket:
        await socket.agree()
        before = psutil.Process(os.getpid()).memory_info().rss
        writer = socket.socket._writer.transport
        writer.write(struct.pack("!BBQ", 0x82, 0xFF, 64 * 1_048_576) + bytes(4))
        assert await socket.rest() == []
    async with hub_stream(hub) as stream:
        assert await stream.post(b"x" * (LARGEST_RECORD + 1)) == 413
        assert await stream.post(HANDSHAKE) == 200

    assert socket.close_code == 1009
    assert psutil.Process(os.getpid()).memory_info().rss - before < 16 * 1_048_576


async def test_a_flood_of_calls_whose_answers_are_not_read_is_not_read_either(hub: RunningGateway) -> None:
    host, _, port = hub.url.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port), limit=1_024)
    request = f"GET {PATH}?access_token={token()} HTTP/1.1\r\nHost: x\r\n{UPGRADE}\r\n"
    writer.write(request.encode())
    await reader.readuntil(b"\r\n\r\n")
    writer.write(_frame(HANDSHAKE))
    await reader.readuntil(b'{"type":6}\x1e')
    calls = _frame(b'{"type":1,"target":"x","invocationId":"1"}\x1e' * 90) * 20
    with pytest.raises(TimeoutError):  # noqa: PT012 - the buffers of the system take some
        for _ in range(64 * 1_048_576 // len(calls)):
            writer.write(calls)
            async with asyncio.timeout(1):
                await writer.drain()
    async with hub.sse("bo") as other:
        await other.live()
    writer.transport.abort()
    await until(lambda: not hub.stream.sessions._by_user)


@pytest.mark.parametrize("agreed", [False, True])
async def test_a_client_that_falls_silent_is_disconnected(
    events: ClientEvents, monkeypatch: pytest.MonkeyPatch, *, agreed: bool
) -> None:
    monkeypatch.setattr(
        "tocsin.gateway.signalr.transports.HANDSHAKE_SECONDS", LONGEST_WAIT if agreed else 0.2
    )
    seconds = 0.2 if agreed else LONGEST_WAIT
    ended = counted(metrics.gateway_sessions_ended, "signalr_websocket", "client_timeout")
    async with events.gateway(signalr_path=PATH, signalr_client_seconds=seconds) as gateway:
        async with hub_socket(gateway) as socket:
            if agreed:
                await socket.agree()
            [answer] = await socket.rest()
        async with hub_stream(gateway) as stream:
            if agreed:
                await _agree(stream)
            assert await stream.message() == answer

    closed = {"type": 7, "error": "client_timeout", "allowReconnect": True}
    assert answer == (closed if agreed else {"error": "client_timeout"})
    assert socket.close_code == 4408
    assert counted(metrics.gateway_sessions_ended, "signalr_websocket", "client_timeout") == ended + 1


async def test_a_stop_waits_for_no_handshake(events: ClientEvents) -> None:
    async with events.gateway(signalr_path=PATH) as gateway, hub_socket(gateway) as socket:
        began = asyncio.get_running_loop().time()
        gateway.stop.set()
        assert await socket.rest() == [{"error": "restart"}]
    assert asyncio.get_running_loop().time() - began < 5


async def test_a_slow_client_is_closed(events: ClientEvents) -> None:
    slow = counted(metrics.gateway_sessions_ended, "signalr_sse", "slow")
    async with (
        events.gateway(signalr_path=PATH, queue_events=5) as gateway,
        gateway.sse() as quick,
        hub_stream(gateway) as stream,
    ):
        await quick.live()
        await _agree(stream)
        stream.response.connection.transport.pause_reading()  # type: ignore[union-attr]
        for number in range(60):
            await events.append(f"e{number}", payload_bytes=bytes(200_000))
            assert await quick.ids(1) == [f"e{number}"]
        await until(lambda: counted(metrics.gateway_sessions_ended, "signalr_sse", "slow") == slow + 1)


async def test_a_post_waits_for_a_client_that_does_not_read_and_a_second_one_is_refused(
    events: ClientEvents,
) -> None:
    async with (
        events.gateway(signalr_path=PATH, queue_bytes=100_000_000) as gateway,
        hub_stream(gateway) as stream,
    ):
        await _agree(stream)
        paused = stream.response.connection
        assert paused is not None
        assert paused.transport is not None
        paused.transport.pause_reading()
        for number in range(60):
            await events.append(f"e{number}", payload_bytes=bytes(200_000))
        posting = asyncio.create_task(stream.post(b'{"type":1,"target":"x","invocationId":"1"}\x1e'))
        [[posted]] = [gateway.stream.app._hub._connections._posting.values()]
        await until(lambda: posted.transport.is_busy)
        assert await stream.post(PING) == 409
        paused.transport.resume_reading()
        assert await posting == 200
        assert await stream.post(PING) == 200


async def test_only_its_own_person_uses_a_connection_token_and_only_once(hub: RunningGateway) -> None:
    connection = (await negotiate(hub, "bo"))["connectionToken"]
    assert await _socket_status(hub, connection, "ada") == 404
    assert await _socket_status(hub, connection, "bo") == 101
    assert await _socket_status(hub, connection, "bo") == 404
    assert await _socket_status(hub, "nonsense", "bo") == 404
    async with hub_stream(hub) as stream:
        assert await stream.post(HANDSHAKE, "bo") == 404
        assert await stream.post(HANDSHAKE) == 200
        assert await stream.message() == {}
    await until(lambda: not hub.stream.sessions._by_user)
    assert await stream.post(PING) == 404


async def test_connection_tokens_expire_and_are_bounded(
    events: ClientEvents, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with events.gateway(signalr_path=PATH, max_sessions=3, max_sessions_per_user=2) as gateway:
        oldest, *newer = [(await negotiate(gateway))["connectionToken"] for _ in range(3)]
        assert await _socket_status(gateway, oldest, "ada") == 404
        await negotiate(gateway, "bo")
        url = f"{gateway.url}{PATH}/negotiate?negotiateVersion=1"
        async with gateway.http.post(url, headers=bearer("cy")) as response:
            assert response.status == 503
            assert int(response.headers["retry-after"]) > 0
        monkeypatch.setattr("tocsin.gateway.signalr.connections.TOKEN_SECONDS", 0)
        assert await _socket_status(gateway, newer[0], "ada") == 101
        expired = (await negotiate(gateway, "cy"))["connectionToken"]
        assert await _socket_status(gateway, expired, "cy") == 404
        assert await _socket_status(gateway, newer[1], "ada") == 101
        hub = gateway.stream.app._hub._connections
        assert [value.user_id for value in hub._negotiated.values()] == ["bo"]
        assert list(hub._of_user) == ["bo"]


async def _agree(stream: HubStream) -> None:
    assert await stream.post(HANDSHAKE) == 200
    assert [await stream.message() for _ in range(2)] == [{}, {"type": 6}]


async def _socket_status(gateway: RunningGateway, connection: str, user_id: str) -> int:
    try:
        async with hub_socket(gateway, token(user_id), id=connection) as socket:
            await socket.agree()
            return 101
    except aiohttp.WSServerHandshakeError as error:
        return error.status


def _frame(body: bytes) -> bytes:
    return struct.pack("!BBH", 0x81, 0x80 | 126, len(body)) + bytes(4) + body
