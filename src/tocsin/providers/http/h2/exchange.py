"""One request and its answer."""

import asyncio
import math
from http import HTTPStatus
from typing import Protocol

from tocsin.http2.errors import ErrorCode, StreamFault
from tocsin.http2.frames import DEFAULT_WINDOW
from tocsin.http2.hpack_blocks import decode_block
from tocsin.providers.http.h2.header_fields import ResponseHead, ResponseHeads, check_trailers
from tocsin.providers.http.reply import Reply

MOST_BODY_BYTES = 8 * 1_024 * 1_024
"""The most content of an answer: a provider answers a few kilobytes."""

_WITHOUT_CONTENT = frozenset({HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED})


class Carrier(Protocol):
    """Who carries a request at the moment: the queue or a connection."""

    def cancel(self, exchange: "Exchange") -> None:
        """Forget a request that nobody waits for any more."""


class AnswerGroup:
    """Collects the requests of a batch that have ended, and wakes who waits for them once a turn of the loop.

    To await each request by itself takes a task or a callback each, which costs more than its answer.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._ended: list[Exchange] = []
        self._waiter: asyncio.Future[None] | None = None

    def watch(self, exchange: "Exchange", place: int) -> None:
        """Collect a request when it ends; `place` is its place in the batch."""
        exchange.place = place
        if exchange.done():
            self.add(exchange)
        else:
            exchange.group = self

    def add(self, exchange: "Exchange") -> None:
        """Take a request that has ended."""
        self._ended.append(exchange)
        self.wake()

    def wake(self) -> None:
        """Wake who waits, whether a request has ended or not."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def wait(self) -> "list[Exchange]":
        """Wait until some have ended, or until woken, and return those that have."""
        if not self._ended:
            self._waiter = self._loop.create_future()
            await self._waiter
        ended, self._ended = self._ended, []
        return ended


class Exchange(asyncio.Future[Reply]):
    """The future of an answer, with the request and all that is known of its stream.

    It is one object a request, and no task: whoever awaits it is woken by the connection, and so is its
    group. To cancel it frees its stream at once. The defaults below are those of most requests, which need no
    others.
    """

    group: AnswerGroup | None = None
    place = 0
    """Its place in the batch that its group collects."""

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
    enough: float = math.inf
    """With so much content an answer is complete; what follows is not read."""
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
            self._join_group()
        return cancelled

    def set_result(self, result: Reply) -> None:
        """End the request with its answer."""
        super().set_result(result)
        self._join_group()

    def set_exception(self, exception: type | BaseException, /) -> None:
        """End the request with what went wrong."""
        super().set_exception(exception)
        self._join_group()

    def _join_group(self) -> None:
        if self.group is not None:
            self.group.add(self)

    def begin_again(self, carrier: Carrier) -> None:
        """Prepare to send the request on another stream."""
        self.carrier = carrier
        self.repeats += 1
        self.stream_id = 0
        self.unsent = b""
        self.receive_window = DEFAULT_WINDOW
        self.received = 0
        self._head, self._content = None, b""

    def take_headers(self, block: bytes, heads: ResponseHeads, *, end_stream: bool) -> bool:
        """Take the head of an answer or the trailers after it; return False for an interim answer."""
        if self._head is not None:
            if not end_stream:
                raise StreamFault(ErrorCode.PROTOCOL_ERROR, "trailers that do not end the answer")
            check_trailers(decode_block(block))
            return True
        head = heads.decode(block)
        if not head.is_interim:
            self._head = head
        elif end_stream:
            raise StreamFault(ErrorCode.PROTOCOL_ERROR, "an interim answer that ends the stream")
        return not head.is_interim

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
        """Return the answer, which has ended or has enough content."""
        head = self._head
        if head is None:
            raise StreamFault(ErrorCode.PROTOCOL_ERROR, "an answer without its header")
        if self.received >= self.enough:
            return Reply(head.status, head.headers, bytes(self._content[: int(self.enough)]))
        if head.content_length not in {None, self.received} and head.status not in _WITHOUT_CONTENT:
            raise StreamFault(ErrorCode.PROTOCOL_ERROR, "less content than content-length")
        return Reply(head.status, head.headers, bytes(self._content))
