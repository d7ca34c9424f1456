"""One HTTP/2 connection: many requests at once, and one write for all frames of a turn of the loop."""

import asyncio
from typing import Protocol, cast

from tocsin.http2.errors import ConnectionFault, ErrorCode, StreamFault, code_name
from tocsin.http2.flow_control import ReceiveWindow, SendWindow, take_stream
from tocsin.http2.frames import (
    DEFAULT_FRAME_SIZE,
    DEFAULT_WINDOW,
    LAST_STREAM_ID,
    PREFACE,
    Setting,
    goaway_frame,
    header_frames,
    ping_frame,
    reset_frame,
    settings_ack,
    settings_frame,
)
from tocsin.http2.hpack_blocks import NO_TABLE
from tocsin.http2.keep_alive import KeepAlive, PeerGoneError
from tocsin.http2.peer_settings import PeerSettings
from tocsin.http2.reader import MOST_HEADER_BYTES, FrameReader
from tocsin.http2.writer import FrameWriter
from tocsin.providers.http.h2.errors import (
    ConnectionLostError,
    NotHttp2Error,
    RequestFailedError,
    RequestTimeoutError,
    StreamResetError,
)
from tocsin.providers.http.h2.exchange import Exchange
from tocsin.providers.http.h2.header_fields import LIST_OVERHEAD, ResponseHeads

MOST_STREAMS = 1_000
"""The most streams of one connection, however many the peer allows."""

MOST_RESETS = 10_000
"""How many streams that this client reset are remembered: frames for them may still be on their way."""

OUR_SETTINGS = settings_frame(
    {
        Setting.HEADER_TABLE_SIZE: 0,
        Setting.ENABLE_PUSH: 0,
        Setting.MAX_CONCURRENT_STREAMS: 0,
        Setting.INITIAL_WINDOW_SIZE: DEFAULT_WINDOW,
        Setting.MAX_FRAME_SIZE: DEFAULT_FRAME_SIZE,
        Setting.MAX_HEADER_LIST_SIZE: MOST_HEADER_BYTES,
    }
)


class Owner(Protocol):
    """Who opened a connection and has requests for it."""

    def on_room(self, connection: "Connection") -> None:
        """Start what waits: a stream became free, or the peer allows more."""

    def on_retired(self) -> None:
        """Start what waits elsewhere: a connection takes no more."""

    def on_closed(self, connection: "Connection") -> None:
        """Forget a connection that ended."""

    def on_overload(self) -> None:
        """Open no further connections for a while: the peer asks for calm."""

    def repeat(self, exchange: Exchange, error: RequestFailedError) -> None:
        """Send a request again that was certainly not processed, or fail it with the error."""


class Connection(asyncio.Protocol):
    """A connection to one origin; `limit` is how many streams may be open, 0 unless it can be used.

    A `retired` one only finishes its streams.
    """

    def __init__(self, owner: Owner, heads: ResponseHeads) -> None:
        self._owner = owner
        self._heads = heads
        self._loop = asyncio.get_running_loop()
        now = self._loop.time()
        self._reader = FrameReader(self)
        self.writer = FrameWriter(self._loop)
        self._keep_alive = KeepAlive(now)
        self._send_window = SendWindow()
        self._receive_window = ReceiveWindow()
        self._next_id = 1
        self._last_accepted = LAST_STREAM_ID
        self._reset: dict[int, None] = {}
        self._allowed = 0
        self.retired = False
        self._ended = False
        self.peer = PeerSettings()
        self.ready: asyncio.Future[None] = self._loop.create_future()
        """Done with the first SETTINGS of the peer; failed if the connection ended before."""
        self.opened_at = self.idle_since = now
        self.limit = 0
        self.streams: dict[int, Exchange] = {}
        self._has_freed = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin with the preface and our SETTINGS."""
        # The transports of uvloop only look like those of asyncio.
        writable = self.writer.transport = cast("asyncio.Transport", transport)
        writable.write(PREFACE + OUR_SETTINGS + self._receive_window.opening())

    def data_received(self, data: bytes) -> None:
        """Read the frames that came."""
        if self._ended:
            return
        self._keep_alive.heard = True
        try:
            self._reader.feed(data)
        except ConnectionFault as fault:
            self._end(fault.code, ConnectionLostError(str(fault), may_be_processed=True), fault.detail)
        if self._has_freed:  # Once for all answers that came together.
            self._freed()

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail what has no answer yet."""
        detail = "the peer closed the connection" if exc is None else type(exc).__name__
        self._end(ErrorCode.NO_ERROR, ConnectionLostError(detail, may_be_processed=True), abort=True)

    def pause_writing(self) -> None:
        """Start nothing more here while the peer reads too slowly."""
        self.writer.pause()
        self.limit = 0

    def resume_writing(self) -> None:
        """Write what was kept, and go on."""
        self.writer.resume()
        if not self.retired:
            self.limit = self._allowed
            self._owner.on_room(self)

    def start(self, exchange: Exchange) -> None:
        """Send a request; the caller has checked that there is room for its stream."""
        stream_id, block, body = self._next_id, exchange.block, exchange.body
        limit = self.peer.max_header_list_size
        if limit is not None and len(block) + LIST_OVERHEAD > limit:
            detail = f"the peer takes headers of {limit} bytes at most"
            exchange.set_exception(StreamResetError(detail, may_be_processed=False))
            return
        if stream_id == 1:
            block = NO_TABLE + block
        self._next_id = stream_id + 2
        exchange.carrier = self
        exchange.stream_id = stream_id
        self.streams[stream_id] = exchange
        length, most = len(body), DEFAULT_FRAME_SIZE
        window, sending = self.peer.initial_window_size, self._send_window
        fits = 0 < length <= most and length <= window and length <= sending.size and len(block) <= most
        if fits and not sending.blocked:
            sending.size -= length
            exchange.window = window - length
            self.writer.add_message(stream_id, block, body)
        else:
            exchange.window = window
            head = header_frames(stream_id, block, end_stream=not body)
            self.writer.add(*head, *sending.send(exchange, body), begins=stream_id)
        if stream_id == LAST_STREAM_ID:
            self.retire()

    def check_protocol(self) -> None:
        """Raise NotHttp2Error unless the peer agreed by ALPN to speak HTTP/2."""
        tls = self.writer.transport and self.writer.transport.get_extra_info("ssl_object")
        if not tls or tls.selected_alpn_protocol() != "h2":
            raise NotHttp2Error("the peer does not speak HTTP/2")

    def cancel(self, exchange: Exchange) -> None:
        """Free the stream of a request that nobody waits for any more."""
        self._reset_stream(exchange.stream_id, ErrorCode.CANCEL)

    def retire(self) -> None:
        """Start no more streams; close once the open ones have ended."""
        self.retired = True
        self.limit = 0
        self._close_if_done()
        self._owner.on_retired()

    def close(self, error: RequestFailedError) -> None:
        """Close the connection and fail what has no answer yet."""
        self._end(ErrorCode.NO_ERROR, error)

    def tick(self, now: float) -> None:
        """Look at what takes too long, about as often as the pool's timer runs."""
        overdue = [exchange for exchange in self.streams.values() if exchange.deadline <= now]
        for exchange in overdue:
            was_sent = exchange.stream_id <= self.writer.flushed
            self._reset_stream(exchange.stream_id, ErrorCode.CANCEL)
            exchange.set_exception(RequestTimeoutError("no answer in time", may_be_processed=was_sent))
        if self.limit and self.limit < self._allowed:
            self.limit = min(self._allowed, 2 * self.limit)
            self._owner.on_room(self)
        try:
            if ping := self._keep_alive.tick(now, self._next_id // 2):
                self.writer.add(ping)
        except ConnectionFault as fault:
            self._end(fault.code, ConnectionLostError(str(fault), may_be_processed=True), fault.detail)
        except PeerGoneError as gone:
            self._end(ErrorCode.NO_ERROR, ConnectionLostError(str(gone), may_be_processed=True), abort=True)

    def on_headers(self, stream_id: int, block: bytes, *, end_stream: bool) -> None:
        """Take the head of an answer or its trailers."""
        exchange = self.streams.get(stream_id)
        if exchange is None:
            self._check_closed(stream_id, "HEADERS")
            return
        if not exchange.take_headers(block, self._heads, end_stream=end_stream):
            self.on_ignored()
        if end_stream:
            self._complete(exchange, ended=True)

    def on_data(self, stream_id: int, content: bytes, length: int, *, end_stream: bool) -> None:
        """Take content of an answer."""
        if update := self._receive_window.take(length):
            self.writer.add(update)
        exchange = self.streams.get(stream_id)
        if exchange is None:
            self._check_closed(stream_id, "DATA")
            return
        if not content and not end_stream:
            self.on_ignored()
        if update := take_stream(exchange, length, end_stream=end_stream):
            self.writer.add(update)
        exchange.take_data(content)
        if end_stream or exchange.received >= exchange.enough:
            self._complete(exchange, ended=end_stream)

    def on_reset(self, stream_id: int, code: int) -> None:
        """Fail the request of a stream that the peer gave up; a refused one is sent again."""
        exchange = self.streams.get(stream_id)
        if exchange is None:
            self._check_not_idle(stream_id, "RST_STREAM")
            self.on_ignored()
            return
        # Streams that were answered just before are room for what waits, not room that is missing.
        self._freed()
        self._forget(exchange)
        name = f"the peer reset the stream: {code_name(code)}"
        if code == ErrorCode.REFUSED_STREAM:
            # It has less room than it said.
            self._slow_down(len(self.streams))
            self._owner.repeat(exchange, StreamResetError(name, may_be_processed=False))
        else:
            if code == ErrorCode.ENHANCE_YOUR_CALM:
                self._slow_down(len(self.streams) // 2)
                self._owner.on_overload()
            exchange.set_exception(StreamResetError(name, may_be_processed=True))
        self._freed()

    def on_settings(self, settings: list[tuple[int, int]]) -> None:
        """Apply the peer's settings and acknowledge them."""
        self.on_ignored()
        window = self.peer.initial_window_size
        self.peer.update(settings)
        self._send_window.shift_streams(self.streams.values(), self.peer.initial_window_size - window)
        self.writer.add(settings_ack())
        allowed = self.peer.max_concurrent_streams
        self._allowed = MOST_STREAMS if allowed is None else min(allowed, MOST_STREAMS)
        if not self.retired:
            self.limit = self._allowed
        self._send_blocked()
        if not self.ready.done():
            self.ready.set_result(None)
        elif self.limit:
            self._owner.on_room(self)

    def on_settings_ack(self) -> None:
        """Note that the peer has our settings."""
        self.on_ignored()
        self._keep_alive.settings_acknowledged()

    def on_ping(self, payload: bytes, *, ack: bool) -> None:
        """Answer a PING, or note that ours was answered."""
        self.on_ignored()
        if not ack:
            self.writer.add(ping_frame(payload, ack=True))
        else:
            self._keep_alive.ping_acknowledged(payload)

    def on_goaway(self, last_stream_id: int, code: int) -> None:
        """Start nothing more here; what the peer will not process is sent again on another connection."""
        self.on_ignored()
        if last_stream_id > self._last_accepted:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "GOAWAY with a higher stream than before")
        self._last_accepted = last_stream_id
        if code == ErrorCode.ENHANCE_YOUR_CALM:
            self._owner.on_overload()
        error = ConnectionLostError(f"the peer leaves: {code_name(code)}", may_be_processed=False)
        unprocessed = [each for stream_id, each in self.streams.items() if stream_id > last_stream_id]
        for exchange in unprocessed:
            self._forget(exchange)
        self.retire()
        for exchange in unprocessed:
            self._owner.repeat(exchange, error)

    def on_window_update(self, stream_id: int, increment: int) -> None:
        """Send what waited for a window."""
        self._keep_alive.count_window_update()
        if not stream_id:
            self._send_window.enlarge(increment)
        elif exchange := self.streams.get(stream_id):
            self._send_window.enlarge_stream(exchange, increment)
        else:
            self._check_not_idle(stream_id, "WINDOW_UPDATE")
            self.on_ignored()
        self._send_blocked()

    def on_ignored(self) -> None:
        """Count a frame that carries nothing."""
        self._keep_alive.count_idle_frame(self._next_id // 2)

    def on_stream_fault(self, stream_id: int, fault: StreamFault) -> None:
        """Reset a stream whose peer broke a rule, and fail its request."""
        exchange = self.streams.get(stream_id)
        self._check_not_idle(stream_id, "a malformed frame")
        self._reset_stream(stream_id, fault.code)
        if exchange is not None:
            exchange.set_exception(StreamResetError(str(fault), may_be_processed=True))

    def _complete(self, exchange: Exchange, *, ended: bool) -> None:
        reply = exchange.complete()
        if exchange.unsent or not ended:
            # Answered before the whole body was sent, or with more than is wanted: the rest is of no use.
            self._reset_stream(exchange.stream_id, ErrorCode.CANCEL)
        else:
            del self.streams[exchange.stream_id]
            self._has_freed = True
        exchange.set_result(reply)

    def _check_closed(self, stream_id: int, name: str) -> None:
        """Ignore a frame for a stream that this client reset; any other closed stream had ended."""
        self._check_not_idle(stream_id, name)
        if stream_id not in self._reset:
            raise ConnectionFault(ErrorCode.STREAM_CLOSED, f"{name} for a stream that had ended")
        self.on_ignored()

    def _check_not_idle(self, stream_id: int, name: str) -> None:
        if stream_id >= self._next_id or not stream_id % 2:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, f"{name} for a stream that was not begun")

    def _forget(self, exchange: Exchange) -> None:
        del self.streams[exchange.stream_id]
        self._send_window.blocked.pop(exchange.stream_id, None)

    def _reset_stream(self, stream_id: int, code: ErrorCode) -> None:
        self.writer.add(reset_frame(stream_id, code))
        self._reset[stream_id] = None
        if len(self._reset) > MOST_RESETS:
            del self._reset[next(iter(self._reset))]
        if exchange := self.streams.get(stream_id):
            self._forget(exchange)
            # Not at once: what waits for the stream may be cancelled in this turn of the loop as well.
            self._loop.call_soon(self._freed)

    def _slow_down(self, limit: int) -> None:
        """Use fewer streams for a while; each tick allows twice as many again."""
        if self.limit:
            self.limit = max(1, min(self.limit, limit))

    def _freed(self) -> None:
        self._has_freed = False
        if not self.streams:
            self.idle_since = self._loop.time()
        if self.retired:
            self._close_if_done()
        else:
            self._owner.on_room(self)

    def _close_if_done(self) -> None:
        if self.retired and not self.streams:
            self._end(ErrorCode.NO_ERROR, ConnectionLostError("retired", may_be_processed=False))

    def _send_blocked(self) -> None:
        if self._send_window.blocked:
            self.writer.add(*self._send_window.send_blocked())

    def _end(
        self, code: ErrorCode, error: RequestFailedError, detail: str = "", *, abort: bool = False
    ) -> None:
        """Close the connection and fail what has no answer; what was not written yet is sent on another."""
        if self._ended:
            return
        self._ended = self.retired = True
        self.limit = 0
        self.writer.end(goaway_frame(code, detail), abort=abort)
        exchanges, self.streams = list(self.streams.values()), {}
        self._owner.on_closed(self)
        for exchange in exchanges:
            if exchange.stream_id > self.writer.flushed:
                self._owner.repeat(exchange, type(error)(str(error), may_be_processed=False))
            else:
                exchange.set_exception(type(error)(str(error), may_be_processed=True))
        if not self.ready.done():
            self.ready.set_exception(error)
            # Nobody waits for it if the pool was closed meanwhile.
            self.ready.exception()
