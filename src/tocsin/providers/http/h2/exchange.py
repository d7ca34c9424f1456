"""One request and its answer."""

import asyncio
from http import HTTPStatus
from typing import Protocol

from tocsin.providers.http.h2.errors import ErrorCode, StreamFault
from tocsin.providers.http.h2.framing.frames import DEFAULT_WINDOW
from tocsin.providers.http.h2.header_fields import ResponseHead, ResponseHeads, check_trailers
from tocsin.providers.http.h2.hpack_blocks import decode_block
from tocsin.providers.http.reply import Reply

MOST_BODY_BYTES = 8 * 1_024 * 1_024
"""The most content of an answer: a provider answers a few kilobytes."""

_WITHOUT_CONTENT = frozenset({HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED})


class Carrier(Protocol):
    """Who carries a request at the moment: the queue or a connection."""

    def cancel(self, exchange: "Exchange") -> None:
        """Forget a request that nobody waits for any more."""


class Exchange(asyncio.Future[Reply]):
    """The future of an answer, with the request and all that is known of its stream.

    It is one object a request, and no task: whoever awaits it is woken by the connection. To cancel it
    frees its stream at once. The defaults below are those of most requests, which need no others.
    """

    stream_id = 0
    repeats = 0
    """How often it was sent again because the peer had certainly not processed it."""
    window = 0
    """How much the peer lets us send."""
    unsent = b""
    """The rest of the body that the window has no room for."""
    receive_window = DEFAULT_WINDOW
    """How much the peer may send."""
    received = 0
    _head: ResponseHead | None = None
    _content: bytes | bytearray = b""

    def __init__(
        self, carrier: Carrier, block: bytes, body: bytes, deadline: float, loop: asyncio.AbstractEventLoop
    ) -> None:
        super().__init__(loop=loop)
        self.carrier = carrier
        self.block = block
        self.body = body
        self.deadline = deadline

    def cancel(self, msg: object | None = None) -> bool:
        """Cancel the request and free its stream."""
        cancelled = super().cancel(msg)
        if cancelled:
            self.carrier.cancel(self)
        return cancelled

    def begin_again(self, carrier: Carrier) -> None:
        """Prepare to send the request on another stream."""
        self.carrier = carrier
        self.repeats += 1
        self.stream_id = 0
        self.unsent = b""
        self.receive_window = DEFAULT_WINDOW
        self.received = 0
        self._head, self._content = None, b""

    def take_headers(self, block: bytes, heads: ResponseHeads, *, end_stream: bool) -> None:
        """Take the head of an answer, an interim one before it, or the trailers after it."""
        if self._head is not None:
            if not end_stream:
                raise StreamFault(ErrorCode.PROTOCOL_ERROR, "trailers that do not end the answer")
            check_trailers(decode_block(block))
            return
        head = heads.decode(block)
        if not head.is_interim:
            self._head = head
        elif end_stream:
            raise StreamFault(ErrorCode.PROTOCOL_ERROR, "an interim answer that ends the stream")

    def take_data(self, content: bytes) -> None:
        """Take content of the answer."""
        head = self._head
        if head is None:
            raise StreamFault(ErrorCode.PROTOCOL_ERROR, "content before its header")
        self.received += len(content)
        if self.received > MOST_BODY_BYTES:
            raise StreamFault(ErrorCode.CANCEL, "an answer too large")
        if head.content_length is not None and self.received > head.content_length:
            raise StreamFault(ErrorCode.PROTOCOL_ERROR, "more content than content-length")
        if not self._content:
            self._content = content
        else:
            if isinstance(self._content, bytes):
                self._content = bytearray(self._content)
            self._content += content

    def complete(self) -> Reply:
        """Return the answer, which has ended."""
        head = self._head
        if head is None:
            raise StreamFault(ErrorCode.PROTOCOL_ERROR, "an answer without its header")
        if head.content_length not in {None, self.received} and head.status not in _WITHOUT_CONTENT:
            raise StreamFault(ErrorCode.PROTOCOL_ERROR, "less content than content-length")
        return Reply(head.status, head.headers, bytes(self._content))
