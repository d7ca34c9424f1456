"""How a session reaches its client: Server-Sent Events or a WebSocket."""

from collections.abc import Mapping
from typing import Any, Protocol

import msgspec

from tocsin.api.http.event_streams import event_stream_start
from tocsin.gateway.events import ClientEvent
from tocsin.gateway.sessions import Ending
from tocsin.wire.streams.entry_ids import EntryId

_encoder = msgspec.json.Encoder()


class Transport(Protocol):
    """Sends what a session has for its client."""

    name: str

    async def open(self, retry_ms: int) -> None:
        """Accept the connection, with how long the client should wait before it connects again."""
        ...

    async def send(self, event: ClientEvent) -> None:
        """Send an event."""
        ...

    async def ping(self, position: EntryId) -> None:
        """Send a sign of life, with the entry up to which the client has everything."""
        ...

    async def reset(self) -> None:
        """Report that events may be missing before what follows."""
        ...

    async def end(self, reason: str, code: int, retry_ms: int) -> None:
        """Report why the connection ends, and end it."""
        ...

    async def closed(self) -> Ending:
        """Wait until the client ends the connection, or breaks its rules."""
        ...


class SseTransport:
    """Server-Sent Events: one response that does not end."""

    name = "sse"

    def __init__(self, receive: Any, send: Any, headers: Mapping[str, str]) -> None:
        self._receive = receive
        self._send = send
        self._headers = headers

    async def open(self, retry_ms: int) -> None:
        """Begin the response."""
        await self._send(event_stream_start(self._headers))
        await self._write(b"retry: %d\n\n" % retry_ms)

    async def send(self, event: ClientEvent) -> None:
        """Send an event with the id of its entry."""
        await self._write(b"id: %b\ndata: %b\n\n" % (str(event.id).encode(), event.body))

    async def ping(self, position: EntryId) -> None:
        """Send a comment; an id without data moves the browser's last event id."""
        await self._write(b": ping\nid: %b\n\n" % str(position).encode())

    async def reset(self) -> None:
        """Send the event `reset`."""
        await self._write(b"event: reset\ndata: {}\n\n")

    async def end(self, reason: str, code: int, retry_ms: int) -> None:  # noqa: ARG002 - WebSockets have codes
        """Send the event `end` and end the response."""
        data = _encoder.encode({"reason": reason, "retry_ms": retry_ms})
        await self._write(b"event: end\nretry: %d\ndata: %b\n\n" % (retry_ms, data), more=False)

    async def closed(self) -> Ending:
        """Wait until the client is gone; what it sends is not read."""
        while (await self._receive())["type"] != "http.disconnect":
            pass
        return Ending.CLOSED_BY_CLIENT

    async def _write(self, text: bytes, *, more: bool = True) -> None:
        await self._send({"type": "http.response.body", "body": text, "more_body": more})


class WebSocketTransport:
    """A WebSocket on which the server alone sends: events, and objects with a `control`."""

    name = "websocket"

    def __init__(self, receive: Any, send: Any) -> None:
        self._receive = receive
        self._send = send

    async def open(self, retry_ms: int) -> None:
        """Accept the connection."""
        await self._send({"type": "websocket.accept"})
        await self._control("open", retry_ms=retry_ms)

    async def send(self, event: ClientEvent) -> None:
        """Send an event as a text message."""
        await self._send({"type": "websocket.send", "text": event.body.decode()})

    async def ping(self, position: EntryId) -> None:
        """Send the control `ping`."""
        await self._control("ping", id=str(position))

    async def reset(self) -> None:
        """Send the control `reset`."""
        await self._control("reset")

    async def end(self, reason: str, code: int, retry_ms: int) -> None:
        """Send the control `end` and close with the code."""
        await self._control("end", reason=reason, retry_ms=retry_ms)
        await self._send({"type": "websocket.close", "code": code, "reason": reason})

    async def closed(self) -> Ending:
        """Wait until the client is gone or sends a message, for which there is no use."""
        while True:
            match (await self._receive())["type"]:
                case "websocket.disconnect":
                    return Ending.CLOSED_BY_CLIENT
                case "websocket.receive":
                    return Ending.MESSAGE_RECEIVED

    async def _control(self, name: str, **fields: str | int) -> None:
        message: Mapping[str, str | int] = {"control": name, **fields}
        await self._send({"type": "websocket.send", "text": _encoder.encode(message).decode()})
