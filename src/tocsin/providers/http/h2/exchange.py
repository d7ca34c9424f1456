"""One request and its answer."""

import asyncio
import math
from collections.abc import Generator
from http import HTTPStatus
from typing import Any, Protocol

from tocsin.http2.errors import ErrorCode, StreamFault
from tocsin.http2.frames import DEFAULT_WINDOW
from tocsin.http2.hpack_blocks import decode_block
from tocsin.providers.http.h2.header_fields import OK, ResponseHead, ResponseHeads, check_trailers
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
        if exchange.ended:
            self.add(exchange)
        else:
            exchange.group = self

    def add(self, exchange: "Exchange") -> None:
        """Take a request that has ended."""
        self._ended.append(exchange)
        if self._waiter is not None:
            self.wake()

    def wake(self) -> None:
        """Wake who waits, whether a request has ended or not."""
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    async def wait(self) -> "list[Exchange]":
        """Wait until some have ended, or until woken, and return those that have."""
        if not self._ended:
            self._waiter = self._loop.create_future()
            await self._waiter
        ended, self._ended = self._ended, []
        return ended


class Exchange:
    """A request, all that is known of its stream, and its answer or why there is none.

    It can be awaited and cancelled like a future, but is none: most requests are collected by a group, and
    a future is made only for one that is awaited by itself. To cancel it frees its stream at once. The
    defaults below are those of most requests, which need no others.
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
    ended = False
    _head: ResponseHead | None = None
    _content: bytes | bytearray = b""
    _reply: Reply | None = None
    _error: BaseException | None = None
    _waiter: asyncio.Future[None] | None = None

    def __init__(self, carrier: Carrier, block: bytes, body: bytes, deadline: float) -> None:
        self.carrier = carrier
        self.block = block
        self.body = body
        self.deadline = deadline

    def __await__(self) -> Generator[Any, None, Reply]:
        """Wait for the answer; whoever is cancelled meanwhile cancels the request."""
        if not self.done():
            if self._waiter is None:
                self._waiter = asyncio.get_running_loop().create_future()
            try:
                yield from self._waiter
            except asyncio.CancelledError:
                self.cancel()
                raise
        return self.result()

    def done(self) -> bool:
        """Return whether the request has ended."""
        return self.ended

    def cancelled(self) -> bool:
        """Return whether the request was cancelled."""
        return isinstance(self._error, asyncio.CancelledError)

    def result(self) -> Reply:
        """Return the answer, or raise what went wrong."""
        if self._reply is not None:
            return self._reply
        raise self._error or asyncio.InvalidStateError("the request has not ended")

    def exception(self) -> BaseException | None:
        """Return what went wrong, if anything; raise CancelledError for a request that was cancelled."""
        if isinstance(self._error, asyncio.CancelledError) or not self.done():
            self.result()
        return self._error

    def cancel(self) -> bool:
        """Cancel the request and free its stream; return False if it has ended already."""
        if self.ended:
            return False
        self.ended = True
        self._error = asyncio.CancelledError()
        self.carrier.cancel(self)
        self._wake()
        return True

    def set_result(self, reply: Reply) -> None:
        """End the request with its answer."""
        if self.ended:
            raise _ended_already()
        self.ended = True
        self._reply = reply
        self._wake()

    def set_exception(self, error: BaseException) -> None:
        """End the request with what went wrong."""
        if self.ended:
            raise _ended_already()
        self.ended = True
        self._error = error
        self._wake()

    def _wake(self) -> None:
        if self.group is not None:
            self.group.add(self)
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

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
        if head.status < OK:
            if end_stream:
                raise StreamFault(ErrorCode.PROTOCOL_ERROR, "an interim answer that ends the stream")
            return False
        self._head = head
        return True

    def take_data(self, content: bytes) -> None:
        """Take content of the answer."""
        head = self._head
        if head is None:
            raise StreamFault(ErrorCode.PROTOCOL_ERROR, "content before its header")
        received = self.received = self.received + len(content)
        if received > MOST_BODY_BYTES:
            raise StreamFault(ErrorCode.CANCEL, "an answer too large")
        if head.content_length is not None and received > head.content_length:
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
        received = self.received
        if received >= self.enough:
            return Reply(head.status, head.headers, bytes(self._content[: int(self.enough)]))
        announced = head.content_length
        if announced is not None and announced != received and head.status not in _WITHOUT_CONTENT:
            raise StreamFault(ErrorCode.PROTOCOL_ERROR, "less content than content-length")
        return Reply(head.status, head.headers, bytes(self._content))


def _ended_already() -> asyncio.InvalidStateError:
    return asyncio.InvalidStateError("the request has ended already")
