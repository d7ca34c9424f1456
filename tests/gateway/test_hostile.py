"""Clients that send what nobody asked for, or take nothing."""

import asyncio
import os
import socket
import struct

import psutil
import pytest

from tests.gateway.clients import UPGRADE, ClientEvents, RunningGateway, bearer, token
from tests.waiting import LONGEST_WAIT, until
from tocsin.api.server import PortTakenError
from tocsin.api.settings import HttpSettings
from tocsin.gateway.server import serve_gateway

MEBIBYTE = 1_048_576
MASK = bytes(4)


async def test_a_message_that_is_too_large_is_refused_before_it_is_read(gateway: RunningGateway) -> None:
    reader, writer = await _websocket(gateway)
    before = psutil.Process(os.getpid()).memory_info().rss
    writer.write(struct.pack("!BBQ", 0x82, 0xFF, 64 * MEBIBYTE) + MASK)
    assert await _close_code(reader) == 1009
    with pytest.raises(ConnectionError):  # noqa: PT012 - it is closed somewhere along the way
        for _ in range(64):
            writer.write(bytes(MEBIBYTE))
            await writer.drain()
    writer.close()

    assert psutil.Process(os.getpid()).memory_info().rss - before < 16 * MEBIBYTE
    await until(lambda: not gateway.stream.sessions._by_user)


@pytest.mark.parametrize("opcode", [0x01, 0x02])
async def test_a_message_ends_the_session_before_it_is_complete(gateway: RunningGateway, opcode: int) -> None:
    reader, writer = await _websocket(gateway)
    # The first of several frames, which ends in the middle of a character.
    writer.write(bytes([opcode, 0x81]) + MASK + b"\xc3" + (bytes([0x00, 0x80]) + MASK) * 1_000)

    assert await _close_code(reader) == 1008
    writer.close()


async def test_a_client_whose_pings_are_not_read_back_is_not_read_either(gateway: RunningGateway) -> None:
    _, writer = await _websocket(gateway)
    pings = (bytes([0x89, 0xFD]) + MASK + bytes(125)) * 1_000
    with pytest.raises(TimeoutError):  # noqa: PT012 - the buffers of the system take some
        for _ in range(64 * MEBIBYTE // len(pings)):
            writer.write(pings)
            async with asyncio.timeout(1):
                await writer.drain()
    writer.transport.abort()

    await until(lambda: not gateway.stream.sessions._by_user)


async def test_a_connection_of_a_client_that_takes_nothing_is_closed(
    events: ClientEvents, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tocsin.gateway.server.UNREAD_SECONDS", 0.5)
    async with events.gateway() as gateway, gateway.sse() as quick:
        await quick.live()
        host, port = _address(gateway)
        with socket.socket() as silent:
            # So that not everything fits into the buffers of the system.
            silent.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            silent.connect((host, port))
            silent.sendall(f"GET /v1/events?access_token={token()} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            await until(lambda: len(gateway.stream.sessions._by_user["ada"]) == 2)
            client = silent.getsockname()
            assert [end for end in psutil.net_connections("tcp4") if end.raddr == client]
            for number in range(60):
                await events.append(f"e{number}", payload_bytes=bytes(200_000))
                assert await quick.ids(1) == [f"e{number}"]
            await until(lambda: not [end for end in psutil.net_connections("tcp4") if end.raddr == client])


async def test_a_connection_has_limited_time_for_a_request_and_a_port_has_one_server(
    gateway: RunningGateway,
) -> None:
    host, port = _address(gateway)
    with pytest.raises(PortTakenError, match="TOCSIN_GATEWAY__PORT"):
        await serve_gateway(
            None, HttpSettings(host=host, port=port), asyncio.Event(), lambda _: None, websockets=True
        )
    stop = asyncio.Event()
    ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    settings = HttpSettings(port=0, header_seconds=1, max_connections=2)
    serving = asyncio.create_task(
        serve_gateway(gateway.stream.app, settings, stop, ready.set_result, websockets=True)
    )
    url = await ready
    host, _, number = url.removeprefix("http://").partition(":")
    first, writer = await asyncio.open_connection(host, int(number))
    writer.write(b"GET /v1/events HTTP/1.1\r\nhost:")
    second, other = await asyncio.open_connection(host, int(number))
    other.write(f"GET /v1/events HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token()}\r\n\r\n".encode())
    await second.readuntil(b"ping")
    third, refused = await asyncio.open_connection(host, int(number))
    assert await asyncio.wait_for(third.read(), LONGEST_WAIT) == b""
    assert not first.at_eof()
    assert await asyncio.wait_for(first.read(), LONGEST_WAIT) == b""
    assert not second.at_eof()
    for used in (writer, other, refused):
        used.close()
    stop.set()
    await asyncio.wait_for(serving, LONGEST_WAIT)


@pytest.mark.parametrize("path", ["/v1/events/ws?x=" + "x" * 9_000, "/v1/events/ws"])
async def test_a_handshake_that_cannot_be_read_is_answered(gateway: RunningGateway, path: str) -> None:
    reader, writer = await asyncio.open_connection(*_address(gateway))
    more = "".join(f"x{number}: 1\r\n" for number in range(200))
    writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\n{UPGRADE}{more}\r\n".encode())

    assert (await asyncio.wait_for(reader.read(), LONGEST_WAIT)).startswith(b"HTTP/1.1 400 ")
    writer.close()


async def test_a_body_that_is_not_http_ends_its_session(gateway: RunningGateway) -> None:
    reader, writer = await asyncio.open_connection(*_address(gateway))
    authorization = bearer()["Authorization"]
    writer.write(
        f"GET /v1/events HTTP/1.1\r\nHost: x\r\nAuthorization: {authorization}\r\n"
        "Transfer-Encoding: chunked\r\n\r\n".encode()
    )
    await reader.readuntil(b"ping")
    writer.write(b"no chunk\r\n")

    await until(lambda: not gateway.stream.sessions._by_user)
    writer.close()


def _address(gateway: RunningGateway) -> tuple[str, int]:
    host, _, port = gateway.url.removeprefix("http://").partition(":")
    return host, int(port)


async def _websocket(gateway: RunningGateway) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection(*_address(gateway), limit=1_024)
    writer.write(f"GET /v1/events/ws?access_token={token()} HTTP/1.1\r\nHost: x\r\n{UPGRADE}\r\n".encode())
    await reader.readuntil(b'"ping"')
    await reader.readuntil(b"}")
    return reader, writer


async def _close_code(reader: asyncio.StreamReader) -> int:
    """Read until the frame that closes a WebSocket and return its code."""
    async with asyncio.timeout(LONGEST_WAIT):
        while True:
            opcode, size = await reader.readexactly(2)
            if size == 126:
                [size] = struct.unpack("!H", await reader.readexactly(2))
            body = await reader.readexactly(size)
            if opcode == 0x88:
                return int(struct.unpack("!H", body[:2])[0])
