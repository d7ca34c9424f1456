"""Clients of the hub: the stock one under node, and plain ones that send whatever a test wants."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

from tests.gateway.clients import RunningGateway, SseClient, bearer, token
from tests.javascript.packages import package, program
from tests.waiting import LONGEST_WAIT

PATH = "/hubs/notifications"
HANDSHAKE = b'{"protocol":"json","version":1}\x1e'
PING = b'{"type":6}\x1e'
SCRIPT = Path(__file__).parents[2] / "javascript" / "signalr.mjs"
SSE, WEBSOCKETS = {"transport": 2}, {"transport": 1}
DIRECT = {"transport": 1, "skipNegotiation": True}


class StockClient:
    """`@microsoft/signalr` in a process of node; it reports what happens to it."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._kept: list[tuple[str, Any]] = []

    async def next(self, kind: str) -> Any:
        """Wait for the next report of a kind and return what it says; others are kept."""
        while (found := next((each for each in self._kept if each[0] == kind), None)) is None:
            assert self._process.stdout is not None
            line = await asyncio.wait_for(self._process.stdout.readline(), LONGEST_WAIT)
            assert line, f"the client ended without {kind!r}: {self._kept}"
            self._kept.extend(json.loads(line).items())
        self._kept.remove(found)
        return found[1]

    async def notified(self, count: int) -> list[str]:
        """Wait for the next events and return their event ids."""
        return [(await self.next("notify"))["event_id"] for _ in range(count)]

    def command(self, **command: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(command).encode() + b"\n")


@contextlib.asynccontextmanager
async def stock_client(url: str, user_token: str | None = None, **given: Any) -> AsyncIterator[StockClient]:
    """Connect the stock client to the hub of a gateway."""
    package("@microsoft/signalr")
    settings = {"url": f"{url}{PATH}", "token": user_token or token(), **given}
    process = await asyncio.create_subprocess_exec(
        program("node", "nodejs"),
        SCRIPT,
        json.dumps(settings),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        yield StockClient(process)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def negotiate(gateway: RunningGateway, user_id: str = "ada", query: str = "negotiateVersion=1") -> Any:
    """Negotiate a connection; return the answer."""
    url = f"{gateway.url}{PATH}/negotiate?{query}"
    async with gateway.http.post(url, headers=bearer(user_id)) as response:
        assert response.status == 200, await response.text()
        return await response.json()


def records(data: str | bytes) -> list[Any]:
    """Decode the records of a message."""
    text = data.encode() if isinstance(data, str) else data
    *complete, rest = text.split(b"\x1e")
    assert rest == b""
    return [msgspec.json.decode(record) for record in complete]


class HubSocket:
    """A WebSocket to the hub."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.socket = socket
        self.close_code: int | None = None

    async def send(self, *messages: bytes) -> None:
        for message in messages:
            await self.socket.send_str(message.decode())

    async def agree(self) -> None:
        """Make the handshake, and wait for the first ping."""
        await self.send(HANDSHAKE)
        assert await self.message() == {}
        assert await self.message() == {"type": 6}

    async def message(self) -> Any:
        """Read the next message; raise EOFError at the end."""
        message = await self.socket.receive(timeout=LONGEST_WAIT)
        if message.type is not aiohttp.WSMsgType.TEXT:
            self.close_code = message.data
            raise EOFError
        [record] = records(message.data)
        return record

    async def rest(self) -> list[Any]:
        """Read until the end."""
        found = []
        with contextlib.suppress(EOFError):
            while True:
                found.append(await self.message())
        return found


@contextlib.asynccontextmanager
async def hub_socket(
    gateway: RunningGateway, user_token: str | None = None, **query: str
) -> AsyncIterator[HubSocket]:
    """Open a WebSocket to the hub without a negotiation, unless the query has a connection token."""
    given = {"access_token": user_token or token(), **query}
    async with gateway.http.ws_connect(f"{gateway.url}{PATH}", params=given, autoclose=False) as socket:
        yield HubSocket(socket)


class HubStream(SseClient):
    """Server-Sent Events of the hub, and posts to it."""

    def __init__(self, gateway: RunningGateway, response: aiohttp.ClientResponse, connection: str) -> None:
        super().__init__(response)
        self._gateway = gateway
        self._connection = connection

    async def post(self, body: bytes, user_id: str = "ada") -> int:
        """Post to the hub and return the status of the answer."""
        url = f"{self._gateway.url}{PATH}?id={self._connection}"
        async with self._gateway.http.post(url, data=body, headers=bearer(user_id)) as response:
            return response.status

    async def message(self) -> Any:
        """Read the next message; raise EOFError at the end."""
        [record] = records((await self.next()).data)
        return record


@contextlib.asynccontextmanager
async def hub_stream(gateway: RunningGateway) -> AsyncIterator[HubStream]:
    """Negotiate and open Server-Sent Events of the hub."""
    connection = (await negotiate(gateway))["connectionToken"]
    headers = {"Accept": "text/event-stream"}
    query = {"id": connection, "access_token": token()}
    async with gateway.http.get(f"{gateway.url}{PATH}", params=query, headers=headers) as response:
        assert response.status == 200, await response.text()
        yield HubStream(gateway, response, connection)
