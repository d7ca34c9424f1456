"""What the connections of a listener share: the application, decoded heads, delayed answers."""

import asyncio
import math
from collections.abc import Mapping
from typing import Protocol

from tocsin.http2.frames import LAST_STREAM_ID
from tocsin.sandbox.app import Application
from tocsin.sandbox.http.bodies import BodyMemory
from tocsin.sandbox.http.request_heads import RequestHeads
from tocsin.sandbox.http.response_heads import ResponseHeads
from tocsin.sandbox.responses import Response

_TICKS_A_SECOND = 1_000


class Connection(Protocol):
    """A connection, whatever version of HTTP it speaks."""

    def tick(self, now: float) -> None:
        """Look at what takes too long, about once a second."""

    def shut_down(self) -> None:
        """Take no more requests, and close when those under way are answered; hanging ones are given up."""

    def abort(self) -> None:
        """Close at once."""


class Delayed(Protocol):
    """A request whose answer is delayed."""

    due: int | None
    is_over: bool

    def respond(self, response: Response) -> None:
        """Send the answer."""


class Delays:
    """Answers that are sent later: those of one millisecond share a timer and, on a connection, a write."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[int, dict[Delayed, Response]] = {}

    def add(self, exchange: Delayed, response: Response, seconds: float) -> None:
        """Send an answer after some seconds, unless it is discarded before."""
        due = exchange.due = math.ceil((self._loop.time() + seconds) * _TICKS_A_SECOND)
        waiting = self._waiting.get(due)
        if waiting is None:
            waiting = self._waiting[due] = {}
            self._loop.call_at(due / _TICKS_A_SECOND, self._send, due)
        waiting[exchange] = response

    def discard(self, exchange: Delayed) -> None:
        """Forget an answer that nobody waits for any more, or that was sent."""
        if exchange.due is not None and (waiting := self._waiting.get(exchange.due)):
            waiting.pop(exchange, None)

    def _send(self, due: int) -> None:
        waiting: Mapping[Delayed, Response] = self._waiting.pop(due)
        for exchange, response in waiting.items():
            if not exchange.is_over:
                exchange.due = None
                exchange.respond(response)


class Service:
    """Serves the connections of one listener."""

    def __init__(self, application: Application, scheme: str, streams: int) -> None:
        self.application = application
        self.streams = min(streams, LAST_STREAM_ID)
        """How many requests may be under way at once on a connection of HTTP/2."""
        self.heads = RequestHeads(scheme, application.stand_in_for)
        self.delays = Delays()
        self.response_heads = ResponseHeads()
        self.memory = BodyMemory()
        self.connections: set[Connection] = set()
        self.idle = asyncio.Event()
        """Set while there are no connections."""
        self.idle.set()
        self.is_closing = False

    def opened(self, connection: Connection) -> None:
        """Add a connection."""
        self.connections.add(connection)
        self.idle.clear()

    def closed(self, connection: Connection) -> None:
        """Forget a connection that ended."""
        self.connections.discard(connection)
        if not self.connections:
            self.idle.set()


def server_address(transport: asyncio.BaseTransport) -> str:
    """Return the address that took a connection."""
    host, port = transport.get_extra_info("sockname")[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
