"""One request of HTTP/2 and the state of its stream."""

from typing import Protocol

from tocsin.http2.errors import ErrorCode, StreamFault
from tocsin.http2.frames import DEFAULT_WINDOW
from tocsin.sandbox.http.bodies import BodyTooLargeError, PartialBody
from tocsin.sandbox.http.exchange import TOO_LARGE, Exchange
from tocsin.sandbox.http.request_heads import RequestHead
from tocsin.sandbox.http.service import Service
from tocsin.sandbox.responses import Response


class Carrier(Protocol):
    """The connection of a stream."""

    service: Service
    server: str

    def respond(self, stream: "Stream", response: Response, body: bytes) -> None:
        """Send an answer."""

    def cut(self, stream: "Stream") -> None:
        """Send a part of an answer, and reset the stream."""


class Stream(Exchange):
    """A request on a stream of its own."""

    __slots__ = ("_connection", "is_received", "receive_window", "received", "stream_id", "unsent", "window")

    def __init__(self, connection: Carrier, stream_id: int, head: RequestHead, window: int) -> None:
        super().__init__(connection.service, head, "2")
        self._connection = connection
        self.stream_id = stream_id
        self.window = window
        self.receive_window = DEFAULT_WINDOW
        self.unsent = b""
        self.is_received = False
        """Whether the whole request came."""
        self.received = 0

    def take(self, content: bytes, *, end_stream: bool) -> None:
        """Take content of the body; handle the request if that was all."""
        self.received += len(content)
        length = self.head.content_length
        if length is not None and (self.received > length or (end_stream and self.received < length)):
            raise StreamFault(ErrorCode.PROTOCOL_ERROR, "content of another length than content-length")
        if end_stream and self.parts is None:
            self.is_received = True
            self.handle(content, self._connection.server)
            return
        try:
            if self.parts is None:
                self.parts = PartialBody(self._service.memory)
            self.parts.add(content)
        except BodyTooLargeError:
            self.respond(TOO_LARGE)
            return
        if end_stream:
            self.is_received = True
            self.handle(self.parts.release(), self._connection.server)

    def _send(self, response: Response, body: bytes) -> None:
        self._connection.respond(self, response, body)

    def _cut(self) -> None:
        self._connection.cut(self)
