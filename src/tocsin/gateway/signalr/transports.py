"""How a session reaches a client of SignalR: the hub protocol over a WebSocket or Server-Sent Events."""

import asyncio
import contextlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import msgspec
from uvicorn.protocols.utils import ClientDisconnected

from tocsin.api.http.event_streams import event_stream_start
from tocsin.engine.time_slice import TimeSlice
from tocsin.gateway.events import ClientEvent
from tocsin.gateway.serving import LAST_SECONDS
from tocsin.gateway.sessions import Ending
from tocsin.gateway.signalr.protocol import (
    AGREED,
    PING,
    Call,
    Close,
    Handshake,
    HubProtocolError,
    HubReader,
    closing,
    invocation,
    refused_call,
    refused_handshake,
)
from tocsin.wire.streams.entry_ids import EntryId

HANDSHAKE_SECONDS = 15.0
_encoder = msgspec.json.Encoder()


class _HubTransport(ABC):
    """The hub protocol, whatever carries it: a handshake, then calls of the client's methods.

    These are `notify` with an event and `reset`. With `positions` a client gets its position in the stream as
    `position` in place of pings, which have no room for one.
    """

    name: str

    def __init__(self, receive: Any, send: Any, *, client_seconds: float, positions: bool) -> None:
        self._receive = receive
        self._send = send
        self.is_open = False
        self._client_seconds = client_seconds
        self._positions = positions
        self._reader = HubReader()
        self._agreed = asyncio.Event()
        self._error: str | None = None
        self._ending: Ending | None = None
        self._silence: asyncio.Timeout | None = None

    async def open(self, retry_ms: int) -> None:  # noqa: ARG002 - clients of SignalR have a policy of their own
        """Accept the connection and wait for the handshake."""
        await self._accept()
        self.is_open = True
        await self._agreed.wait()

    async def send(self, event: ClientEvent) -> None:
        """Call `notify` with an event."""
        await self._write(invocation("notify", event.body))

    async def ping(self, position: EntryId) -> None:
        """Send a ping, or call `position` where the client wants it."""
        await self._write(invocation("position", _encoder.encode(str(position))) if self._positions else PING)

    async def reset(self) -> None:
        """Call `reset`."""
        await self._write(invocation("reset"))

    async def end(self, reason: str, code: int, retry_ms: int) -> None:  # noqa: ARG002 - as in `open`
        """Send the reason and end the connection; a client that broke the protocol should not come back."""
        self.is_open = False
        error = self._error or reason
        if self._agreed.is_set():
            last = closing(error, allow_reconnect=code != Ending.PROTOCOL_ERROR.value)
        else:
            last = refused_handshake(error)
        await self._finish(last, code, reason)

    async def closed(self) -> Ending:
        """Wait until the client ends the connection, breaks the protocol or is silent for too long."""
        try:
            async with asyncio.timeout(HANDSHAKE_SECONDS) as self._silence:
                return await self._watch()
        except TimeoutError:
            return self._ending or Ending.CLIENT_TIMEOUT
        except ClientDisconnected:
            return Ending.CLOSED_BY_CLIENT
        finally:
            self._silence = None

    async def _take(self, data: bytes) -> Ending | None:
        """Answer what the client sent; return why the session is to end, if it is."""
        slice_ = TimeSlice()
        try:
            for message in self._reader.read(data):
                match message:
                    case Handshake():
                        await self._write(AGREED)
                        self._agreed.set()
                    case Call(invocation_id):
                        await self._write(refused_call(invocation_id))
                    case Close():
                        return Ending.CLOSED_BY_CLIENT
                await slice_.pause()
                if not self.is_open:
                    return None
        except HubProtocolError as error:
            self._error = str(error)
            return Ending.PROTOCOL_ERROR
        if self._agreed.is_set():
            self._wait_again(self._client_seconds)
        return None

    def _wait_again(self, seconds: float) -> None:
        """Wait for the client's next message from now on."""
        if self._silence is not None and not self._silence.expired():
            self._silence.reschedule(asyncio.get_running_loop().time() + seconds)

    @abstractmethod
    async def _accept(self) -> None: ...

    @abstractmethod
    async def _write(self, record: bytes) -> None: ...

    @abstractmethod
    async def _finish(self, record: bytes, code: int, reason: str) -> None: ...

    @abstractmethod
    async def _watch(self) -> Ending: ...


class HubWebSocketTransport(_HubTransport):
    """The hub protocol over a WebSocket."""

    name = "signalr_websocket"
    _asked_to_close = False

    async def answer_close(self) -> None:
        """Close the WebSocket if the client asked for it by a message and can be reached in time."""
        if not self._asked_to_close or not self.is_open:
            return
        self.is_open = False
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LAST_SECONDS):
                await self._send({"type": "websocket.close", "code": Ending.CLOSED_BY_CLIENT.value})

    async def _accept(self) -> None:
        await self._send({"type": "websocket.accept"})

    async def _write(self, record: bytes) -> None:
        await self._send({"type": "websocket.send", "text": record.decode()})

    async def _finish(self, record: bytes, code: int, reason: str) -> None:
        await self._write(record)
        await self._send({"type": "websocket.close", "code": code, "reason": reason})

    async def _watch(self) -> Ending:
        while (message := await self._receive())["type"] != "websocket.disconnect":
            if (ending := await self._take(message.get("bytes", b""))) is not None:
                self._asked_to_close = ending is Ending.CLOSED_BY_CLIENT
                return ending
        return Ending.CLOSED_BY_CLIENT


class HubSseTransport(_HubTransport):
    """The hub protocol over Server-Sent Events, with requests of their own for what the client sends."""

    name = "signalr_sse"

    def __init__(
        self, receive: Any, send: Any, headers: Mapping[str, str], *, client_seconds: float, positions: bool
    ) -> None:
        super().__init__(receive, send, client_seconds=client_seconds, positions=positions)
        self._headers = headers
        self.is_busy = False

    async def post(self, data: bytes) -> None:
        """Handle what the client posted."""
        self.is_busy = True
        try:
            self._ending = await self._take(data)
        finally:
            self.is_busy = False
        if self._ending is not None:
            self._wait_again(0)

    async def _accept(self) -> None:
        await self._send(event_stream_start(self._headers))
        await self._send({"type": "http.response.body", "body": b":\n\n", "more_body": True})

    async def _write(self, record: bytes, *, more: bool = True) -> None:
        body = b"data: %b\n\n" % record
        await self._send({"type": "http.response.body", "body": body, "more_body": more})

    async def _finish(self, record: bytes, code: int, reason: str) -> None:  # noqa: ARG002 - WebSockets have codes
        await self._write(record, more=False)

    async def _watch(self) -> Ending:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        return Ending.CLOSED_BY_CLIENT
