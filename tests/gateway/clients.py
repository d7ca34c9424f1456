"""A gateway in this process, and the clients of it."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Sequence
from math import ceil
from typing import Any, Self

import aiohttp
import jwt
import msgspec
from redis.asyncio import Redis

from tests.waiting import LONGEST_WAIT, found, until
from tocsin.api.settings import AuthSettings
from tocsin.gateway.process import Events, Gateway
from tocsin.gateway.settings import GatewaySettings
from tocsin.ingress.redis_streams.settings import RedisSettings
from tocsin.telemetry.instruments import Instrument

SECRET = "a secret of at least thirty-two bytes"
AUTH = AuthSettings(jwt_secret=SECRET, leeway_seconds=0)
UPGRADE = (
    "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
)


def token(user_id: str = "ada", seconds: float = 60, **claims: Any) -> str:
    # A fraction of a second is cut off where a token is verified.
    expires = ceil(time.time() + seconds)
    return jwt.encode({"sub": user_id, "exp": expires, **claims}, SECRET, algorithm="HS256")


def bearer(user_id: str = "ada", **claims: Any) -> dict[str, str]:
    return {"Authorization": f"Bearer {token(user_id, **claims)}"}


def counted(instrument: Instrument, *labels: str) -> float:
    """Return the value of a series."""
    value = instrument.read().get(labels, 0.0)
    assert not isinstance(value, list)
    return value


class Frame(msgspec.Struct):
    """One event of a stream of Server-Sent Events."""

    id: str | None = None
    event: str = "message"
    data: str = ""
    retry: int | None = None
    comment: str | None = None

    @property
    def body(self) -> Any:
        return msgspec.json.decode(self.data)


class SseClient:
    """An open stream of events; `last_event_id` is kept as a browser keeps it."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.response = response
        self.last_event_id: str | None = None
        self._lines = aiter(response.content)

    async def frame(self) -> Frame:
        """Read the next frame; raise EOFError at the end of the stream."""
        frame = Frame()
        async with asyncio.timeout(LONGEST_WAIT):
            async for raw in self._lines:
                line = raw.decode().rstrip("\n")
                if not line:
                    self.last_event_id = frame.id or self.last_event_id
                    return frame
                name, _, value = line.partition(":")
                value = value.removeprefix(" ")
                match name:
                    case "":
                        frame.comment = value
                    case "retry":
                        frame.retry = int(value)
                    case "id" | "event" | "data":
                        setattr(frame, name, value)
        raise EOFError

    async def next(self) -> Frame:
        """Read the next frame that has data."""
        while not (frame := await self.frame()).data:
            pass
        return frame

    async def ids(self, count: int) -> list[str]:
        """Read the next events and return their event ids."""
        return [(await self.next()).body["event_id"] for _ in range(count)]

    async def live(self) -> Self:
        """Wait for the first ping: what was missed was sent."""
        while (await self.frame()).comment != "ping":
            pass
        return self

    async def rest(self) -> list[Frame]:
        """Read what has data until the end of the stream."""
        frames = []
        with contextlib.suppress(EOFError, aiohttp.ClientPayloadError):
            while True:
                frames.append(await self.next())
        return frames


class WebSocketClient:
    """An open WebSocket."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.socket = socket
        self.close_code: int | None = None

    async def message(self) -> Any:
        """Read the next message; raise EOFError at the end."""
        message = await self.socket.receive(timeout=LONGEST_WAIT)
        if message.type is not aiohttp.WSMsgType.TEXT:
            self.close_code = message.data
            raise EOFError
        return msgspec.json.decode(message.data)

    async def ids(self, count: int) -> list[str]:
        """Read the next events and return their event ids."""
        found: list[str] = []
        while len(found) < count:
            message = await self.message()
            assert message.get("control") in {None, "open", "ping"}, message
            if "event_id" in message:
                found.append(message["event_id"])
        return found

    async def live(self) -> str:
        """Wait for the first ping: what was missed was sent; return its id."""
        while (message := await self.message()).get("control") != "ping":
            pass
        return str(message["id"])

    async def end(self) -> tuple[Any, int | None]:
        """Read until the end; return the last message and the close code."""
        last = None
        with contextlib.suppress(EOFError):
            while True:
                last = await self.message()
        return last, self.close_code


class RunningGateway:
    """A gateway that runs, the stream that it reads, and connections to it."""

    def __init__(self, gateway: Gateway, url: str, http: aiohttp.ClientSession, stop: asyncio.Event) -> None:
        self.gateway = gateway
        self.url = url
        self.http = http
        self.stop = stop

    @property
    def stream(self) -> Events:
        """The sessions of client events."""
        assert self.gateway.events is not None
        return self.gateway.events

    @contextlib.asynccontextmanager
    async def sse(
        self,
        user_id: str = "ada",
        last_event_id: str | None = None,
        path: str = "/v1/events",
        accept: str = "*/*",
        **claims: Any,
    ) -> AsyncIterator[SseClient]:
        """Open a stream of events."""
        headers = bearer(user_id, **claims) | {"Accept": accept}
        if last_event_id is not None:
            headers["Last-Event-ID"] = last_event_id
        async with self.http.get(f"{self.url}{path}", headers=headers) as response:
            assert response.status == 200, await response.text()
            yield SseClient(response)

    @contextlib.asynccontextmanager
    async def websocket(
        self,
        user_id: str = "ada",
        last_event_id: str | None = None,
        path: str = "/v1/events/ws",
        **claims: Any,
    ) -> AsyncIterator["WebSocketClient"]:
        """Open a WebSocket as a browser does, with everything in its address."""
        query = {"access_token": token(user_id, **claims)}
        if last_event_id is not None:
            query["last_event_id"] = last_event_id
        async with self.http.ws_connect(f"{self.url}{path}", params=query, autoclose=False) as socket:
            yield WebSocketClient(socket)

    async def reaches(self, entry_id: str) -> None:
        """Wait until the gateway has read an entry."""
        await until(lambda: str(self.stream.sessions.position) == entry_id)

    async def refusal(self, **given: Any) -> tuple[int, Any, Any]:
        """Connect in vain; return the status, the problem and the headers."""
        async with self.http.get(f"{self.url}/v1/events", **given) as response:
            return response.status, await response.json(content_type=None), response.headers


@contextlib.asynccontextmanager
async def running_gateway(
    url: str, stream: str, *, wait: bool = True, **changes: Any
) -> AsyncIterator[RunningGateway]:
    """Run a gateway on a free port until the context ends, or until it is stopped."""
    database = changes.pop("database", None)
    settings = GatewaySettings(stream=stream, **({"port": 0} | changes))
    gateway = Gateway(settings, RedisSettings(url=url, timeout=1.0), AUTH, database)
    stop = asyncio.Event()
    address: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    running = asyncio.create_task(gateway.run(stop, address.set_result))
    reading = [asyncio.create_task(duty.run()) for duty in gateway.duties]

    async def is_ready() -> bool:
        return await gateway.fault() is None

    try:
        if wait:
            await found(is_ready)
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as http:
            yield RunningGateway(gateway, await address, http, stop)
        stop.set()
        await running
    finally:
        running.cancel()
        for each in reading:
            each.cancel()
        await asyncio.wait([running, *reading])


def _fields(event_id: str, user_id: str, /, **changes: Any) -> Any:
    fields = {
        "user_id": user_id,
        "event_type": "game.turn.ready",
        "event_id": event_id,
        "payload_bytes": b"\x00\xff",
        **changes,
    }
    return {name: value for name, value in fields.items() if value is not None}


class ClientEvents:
    """The stream that the notification service appends to."""

    def __init__(self, redis: Redis, url: str, stream: str) -> None:
        self.redis = redis
        self.url = url
        self.stream = stream

    async def append(self, event_id: str, user_id: str = "ada", /, **changes: Any) -> str:
        """Append an event, with some of its fields changed, and return the id of the entry."""
        entry_id = await self.redis.xadd(self.stream, _fields(event_id, user_id, **changes))
        assert isinstance(entry_id, bytes)
        return entry_id.decode()

    async def append_all(self, event_ids: Sequence[str], *, trimmed_to: int | None = None) -> list[str]:
        """Append many events at one moment, and return the ids of their entries."""
        async with self.redis.pipeline(transaction=True) as pipeline:
            for event_id in event_ids:
                pipeline.xadd(self.stream, _fields(event_id, "ada"))
            if trimmed_to is not None:
                pipeline.xtrim(self.stream, maxlen=trimmed_to, approximate=False)
            answers = await pipeline.execute()
        return [answer.decode() for answer in answers[: len(event_ids)]]

    def gateway(self, **changes: Any) -> contextlib.AbstractAsyncContextManager[RunningGateway]:
        """Run a gateway that reads the stream."""
        return running_gateway(self.url, self.stream, **changes)
