"""A connection of the client without a socket: what it writes is kept, and a test brings what it reads."""

import asyncio

from tocsin.http2.fields import field
from tocsin.providers.http.h2.connection import Connection
from tocsin.providers.http.h2.errors import RequestFailedError
from tocsin.providers.http.h2.exchange import Exchange
from tocsin.providers.http.h2.header_fields import ResponseHeads, request_head


class Wire(asyncio.Transport):
    """Keeps what was written."""

    def __init__(self) -> None:
        super().__init__()
        self.written = bytearray()
        self.closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert not self.closed
        self.written += data

    def close(self) -> None:
        self.closed = True

    abort = close

    def is_closing(self) -> bool:
        return self.closed

    def take(self) -> bytes:
        """Return what was written since the last time."""
        taken = bytes(self.written)
        self.written.clear()
        return taken


class Owner:
    """Owns one connection and sends nothing again."""

    def __init__(self) -> None:
        self.wire = Wire()
        self.connection = Connection(self, ResponseHeads())
        self.connection.connection_made(self.wire)
        self.repeated: list[Exchange] = []
        self.closed = False
        self._head = request_head(secure=True, authority="example.com", headers={"x": "y"})

    def post(self, body: bytes, deadline: float = 1e12) -> Exchange:
        block = self._head.before_path + field(":path", "/") + self._head.after_path
        exchange = Exchange(self.connection, block, body, deadline)
        self.connection.start(exchange)
        return exchange

    def on_room(self, connection: Connection) -> None:
        assert connection is self.connection

    def on_retired(self) -> None:
        assert self.connection.retired

    def on_closed(self, connection: Connection) -> None:
        assert connection is self.connection
        self.closed = True

    def on_overload(self) -> None:
        pass

    def repeat(self, exchange: Exchange, error: RequestFailedError) -> None:
        assert not error.may_be_processed
        self.repeated.append(exchange)
        exchange.set_exception(error)
