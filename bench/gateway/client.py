"""A session of the gateway, seen from its client."""

import asyncio
import time
from typing import Any

import jwt

SECRET = "a secret of at least thirty-two bytes"
HUB = "/hub"
SIGNALR_PING_SECONDS = 15.0
UPGRADE = (
    "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
)


class Client(asyncio.Protocol):
    """A connection that looks for a ping at first, and for events after that."""

    def __init__(self, number: int, kind: str) -> None:
        self.number = number
        self._kind = kind
        self._transport: Any = None
        self.live: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.seen_at: list[float] = []
        self.ended = asyncio.Event()

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        path, more = {
            "sse": ("/v1/events", ""),
            "websocket": ("/v1/events/ws", UPGRADE),
            "signalr": (HUB, UPGRADE),
            "inbox": ("/v1/inbox/stream", ""),
            "inbox websocket": ("/v1/inbox/ws", UPGRADE),
        }[self._kind]
        claims = {"sub": f"u{self.number}", "exp": time.time() + 3_600}
        token = jwt.encode(claims, SECRET, algorithm="HS256")
        head = f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n{more}\r\n"
        transport.write(head.encode())

    def data_received(self, data: bytes) -> None:
        if self._kind == "signalr" and data.startswith(b"HTTP/1.1 101"):
            self._send(b'{"protocol":"json","version":1}\x1e')
        if not self.live.done() and (b"ping" in data or b'{"type":6}' in data):
            self.live.set_result(None)
            if self._kind == "signalr":
                self._ping()
        events = data.count(b'"event_id"') + data.count(b'"item.created"')
        self.seen_at += [time.monotonic()] * events

    def _send(self, message: bytes) -> None:
        self._transport.write(bytes([0x81, 0x80 | len(message), 0, 0, 0, 0]) + message)

    def _ping(self) -> None:
        if not self.ended.is_set():
            self._send(b'{"type":6}\x1e')
            asyncio.get_running_loop().call_later(SIGNALR_PING_SECONDS, self._ping)

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended.set()
        if not self.live.done():
            self.live.set_exception(exc or ConnectionError("closed before it was live"))
