"""A connection of HTTP/1.1 or 1.0: one request after the other."""

import asyncio
from http import HTTPStatus
from typing import cast

from tocsin.sandbox.http.bodies import BodyTooLargeError
from tocsin.sandbox.http.chunks import ChunkedBody, SizedBody
from tocsin.sandbox.http.exchange import CUT, CUT_LENGTH, TOO_LARGE, Exchange
from tocsin.sandbox.http.request_heads import BadHeadError, RequestHead, TextHead
from tocsin.sandbox.http.service import Service, server_address
from tocsin.sandbox.responses import TEXT, Response

MOST_HEAD_BYTES = 65_536
MOST_WAITING_BYTES = 65_536
"""How much is read ahead of the request that is handled."""

HALF_REQUEST_SECONDS = 60.0
"""How long a request may take to come."""

_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_END = b"\r\n\r\n"


class _TextExchange(Exchange):
    __slots__ = ("_connection",)

    def __init__(self, connection: "Http1Connection", head: RequestHead) -> None:
        super().__init__(connection.service, head, "1.1")
        self._connection = connection

    def _send(self, response: Response, body: bytes) -> None:
        self._connection.respond(response, body)

    def _cut(self) -> None:
        self._connection.cut()


class Http1Connection(asyncio.Protocol):
    """A connection of a client, which may send its next request before the last one is answered."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self._loop = asyncio.get_running_loop()
        self._server = ""
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._searched = 0
        self._head: TextHead | None = None
        self._exchange: _TextExchange | None = None
        self._body: SizedBody | ChunkedBody | None = None
        self._writing_paused = False
        self._reading_paused = False
        self._leaving = False
        self._begun_at: float | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take a connection, also one that began with another protocol."""
        # The transports of uvloop only look like those of asyncio.
        self._transport = cast("asyncio.Transport", transport)
        self._server = server_address(transport)
        self.service.opened(self)

    def data_received(self, data: bytes) -> None:
        """Read the requests that came."""
        self._buffer += data
        self._advance()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - it is lost, whatever the cause
        """Drop what has no answer yet."""
        self.service.closed(self)
        self._transport = None
        self._give_up()

    def pause_writing(self) -> None:
        """Begin no further request while the client reads too slowly."""
        self._writing_paused = True

    def resume_writing(self) -> None:
        """Go on with the next request."""
        self._writing_paused = False
        self._advance()

    def tick(self, now: float) -> None:
        """Close a connection whose request does not come to an end."""
        if self._begun_at is not None and now - self._begun_at >= HALF_REQUEST_SECONDS:
            self.abort()

    def shut_down(self) -> None:
        """Close when the request under way is answered; one that hangs or is not complete is given up."""
        self._leaving = True
        exchange = self._exchange
        if exchange is None or exchange.is_hanging or self._body is not None:
            self._close()

    def abort(self) -> None:
        """Close at once."""
        if self._transport is not None:
            self._transport.abort()

    def respond(self, response: Response, body: bytes) -> None:
        """Send an answer, and go on with the next request."""
        keeps_alive = not self._leaving and self._head is not None and self._head.keeps_alive
        text = self.service.response_heads.text(response, keeps_alive=keeps_alive)
        if self._transport is not None:
            self._transport.write(text + body)
        self._exchange = self._head = None
        if keeps_alive:
            # Not from within: requests that wait would be handled ever deeper.
            if self._buffer:
                self._loop.call_soon(self._advance)
        else:
            self._close()

    def cut(self) -> None:
        """Send less than announced, and close the connection."""
        text = self.service.response_heads.text(CUT, CUT_LENGTH, keeps_alive=True)
        if self._transport is not None:
            self._transport.write(text + CUT.body)
        self._close()

    def _advance(self) -> None:
        """Handle the next request, if all of it is there."""
        if self._transport is None or self._transport.is_closing():
            return
        try:
            if not self._writing_paused and (self._body is not None or self._read_head()):
                self._read_body()
        except BadHeadError as error:
            self._refuse(Response("bad_request", error.status, f"{error}\n".encode(), (TEXT,)))
        except BodyTooLargeError:
            self._refuse(TOO_LARGE)
        self._throttle()

    def _read_head(self) -> bool:
        """Return whether the head of a request was read and its body is next."""
        if self._exchange is not None:
            return False
        buffer = self._buffer
        while buffer.startswith(b"\r\n"):
            del buffer[:2]
        end = buffer.find(_END, self._searched)
        if (end if end >= 0 else len(buffer)) > MOST_HEAD_BYTES:
            raise BadHeadError(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        if end < 0:
            self._searched = max(0, len(buffer) - len(_END) + 1)
            self._begun_at = (self._begun_at or self._loop.time()) if buffer else None
            return False
        text = bytes(buffer[:end])
        del buffer[: end + len(_END)]
        self._searched = 0
        self._head = self.service.heads.parse(text)
        self._exchange = _TextExchange(self, self._head.head)
        memory, length = self.service.memory, self._head.head.content_length or 0
        self._body = ChunkedBody(memory) if self._head.is_chunked else SizedBody(length, memory)
        if self._head.expects_continue and not buffer and self._transport is not None:
            self._transport.write(_CONTINUE)
        return True

    def _read_body(self) -> None:
        if self._body is None or self._exchange is None:
            return
        body = self._body.take(self._buffer)
        if body is None:
            self._begun_at = self._begun_at or self._loop.time()
            return
        self._body = self._begun_at = None
        self._exchange.handle(body, self._server)

    def _refuse(self, response: Response) -> None:
        """Answer a request that cannot be read, and close: nobody knows where the next one begins."""
        self._give_up()
        self._leaving = True
        self.respond(response, response.body)

    def _give_up(self) -> None:
        if self._body is not None:
            self._body.release()
        if self._exchange is not None:
            self._exchange.end()
        self._body = self._exchange = self._begun_at = None
        self._buffer.clear()

    def _throttle(self) -> None:
        """Read no further ahead than a little."""
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        must_pause = len(self._buffer) > MOST_WAITING_BYTES
        if must_pause != self._reading_paused:
            self._reading_paused = must_pause
            (transport.pause_reading if must_pause else transport.resume_reading)()

    def _close(self) -> None:
        self._give_up()
        if self._transport is not None:
            self._transport.close()
