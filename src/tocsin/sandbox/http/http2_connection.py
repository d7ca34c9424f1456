"""A connection of HTTP/2: frames of a read are parsed together, answers of a turn are written together."""

import asyncio
from collections.abc import Callable
from typing import cast

from tocsin.http2.errors import ConnectionFault, ErrorCode, StreamFault
from tocsin.http2.flow_control import ReceiveWindow, SendWindow, take_stream
from tocsin.http2.frames import (
    DEFAULT_FRAME_SIZE,
    PREFACE,
    FrameType,
    Setting,
    frame,
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
from tocsin.sandbox.http.exchange import CUT, CUT_LENGTH
from tocsin.sandbox.http.http2_stream import Stream
from tocsin.sandbox.http.request_heads import HeadDecoder
from tocsin.sandbox.http.service import Service, server_address
from tocsin.sandbox.responses import Response

MOST_RESETS = 10_000
"""How many streams that were reset here are remembered: frames for them may still be on their way."""


class Http2Connection(asyncio.Protocol):
    """A connection of a client; it enforces MAX_CONCURRENT_STREAMS, and reads nothing that it cannot answer.

    An answered stream counts until its answer is written: before that no client can know that it ended.
    """

    def __init__(self, service: Service) -> None:
        self.service = service
        self.server = ""
        self._loop = asyncio.get_running_loop()
        self._reader = FrameReader(self)
        self._writer = FrameWriter(self._loop)
        self._keep_alive = KeepAlive(self._loop.time())
        self._heads = HeadDecoder(service.heads)
        self._peer = PeerSettings(most_push=1)
        self._send_window = SendWindow()
        self._receive_window = ReceiveWindow()
        self._transport: asyncio.Transport | None = None
        self._preface = b""
        self._feed: Callable[[bytes], None] = self._begin
        self._streams: dict[int, Stream] = {}
        self._last_id = 0
        self._reset: dict[int, None] = {}
        self._unwritten = 0
        self._flushes = 0
        self._before_block = NO_TABLE
        self._leaving = False
        self._ended = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin with our SETTINGS."""
        # The transports of uvloop only look like those of asyncio.
        opened = self._transport = self._writer.transport = cast("asyncio.Transport", transport)
        self.server = server_address(opened)
        self.service.opened(self)
        settings: dict[int, int] = {
            Setting.MAX_CONCURRENT_STREAMS: self.service.streams,
            Setting.MAX_HEADER_LIST_SIZE: MOST_HEADER_BYTES,
        }
        opened.write(settings_frame(settings) + self._receive_window.opening())

    def data_received(self, data: bytes) -> None:
        """Read the frames that came."""
        if self._ended:
            return
        self._keep_alive.heard = True
        try:
            self._feed(data)
        except ConnectionFault as fault:
            self._end(fault.code, fault.detail)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - it is lost, whatever the cause
        """Drop what has no answer yet."""
        self.service.closed(self)
        self._end(ErrorCode.NO_ERROR, abort=True)

    def pause_writing(self) -> None:
        """Read nothing more while the peer reads too slowly: every request makes an answer."""
        self._writer.pause()
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        """Write what was kept, and read on."""
        self._writer.resume()
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def tick(self, now: float) -> None:
        """Look at what takes too long, about once a second."""
        if self._ended:
            self.abort()
            return
        try:
            if ping := self._keep_alive.tick(now, self._last_id // 2 + 1):
                self._writer.add(ping)
        except ConnectionFault as fault:
            self._end(fault.code, fault.detail)
        except PeerGoneError:
            self._end(ErrorCode.NO_ERROR, abort=True)

    def shut_down(self) -> None:
        """Refuse further streams, reset those that hang, and close when the others are answered."""
        self._leaving = True
        for stream in [each for each in self._streams.values() if each.is_hanging or not each.is_received]:
            self._reset_stream(stream.stream_id, ErrorCode.CANCEL)
        self._close_if_done()

    def abort(self) -> None:
        """Close at once."""
        self._end(ErrorCode.NO_ERROR, abort=True)
        if self._transport is not None:
            self._transport.abort()

    def respond(self, stream: Stream, response: Response, body: bytes) -> None:
        """Send an answer, or as much of it as the windows allow."""
        stream_id = stream.stream_id
        block = self._before_block + self.service.response_heads.block(response)
        self._before_block = b""
        sending, length = self._send_window, len(body)
        fits = len(block) <= DEFAULT_FRAME_SIZE and 0 < length <= DEFAULT_FRAME_SIZE
        if fits and length <= stream.window and length <= sending.size and not sending.blocked:
            sending.size -= length
            self._writer.add_message(stream_id, block, body)
        else:
            head = header_frames(stream_id, block, end_stream=not body)
            self._writer.add(*head, *sending.send(stream, body))
        if not stream.unsent:
            self._close(stream)

    def cut(self, stream: Stream) -> None:
        """Send less than announced, and reset the stream."""
        block = self._before_block + self.service.response_heads.block(CUT, CUT_LENGTH)
        self._before_block = b""
        self._writer.add(*header_frames(stream.stream_id, block, end_stream=False))
        if min(stream.window, self._send_window.size) >= len(CUT.body):
            self._send_window.size -= len(CUT.body)
            self._writer.add(frame(FrameType.DATA, 0, stream.stream_id, CUT.body))
        self._reset_stream(stream.stream_id, ErrorCode.INTERNAL_ERROR)

    def on_headers(self, stream_id: int, block: bytes, *, end_stream: bool) -> None:
        """Begin a request, or take the trailers of one."""
        if stream_id <= self._last_id:
            self._take_trailers(stream_id, block, end_stream=end_stream)
            return
        if not stream_id % 2:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "a stream that only a server can begin")
        self._last_id = stream_id
        head = self._heads.decode(block)
        unwritten = self._unwritten if self._flushes == self._writer.flushes else 0
        if self._leaving or len(self._streams) + unwritten >= self.service.streams:
            self._reset_stream(stream_id, ErrorCode.REFUSED_STREAM)
            return
        stream = self._streams[stream_id] = Stream(self, stream_id, head, self._peer.initial_window_size)
        if end_stream:
            stream.take(b"", end_stream=True)

    def on_data(self, stream_id: int, content: bytes, length: int, *, end_stream: bool) -> None:
        """Take content of a request."""
        if update := self._receive_window.take(length):
            self._writer.add(update)
        stream = self._streams.get(stream_id)
        if stream is None:
            self._check_closed(stream_id, "DATA")
            return
        if stream.is_received:
            raise StreamFault(ErrorCode.STREAM_CLOSED, "DATA after the end of the request")
        if not content and not end_stream:
            self.on_ignored()
        # After the end nothing more comes, so that what fits needs no counting.
        is_counted = not end_stream or length > stream.receive_window
        if is_counted and (update := take_stream(stream, length, end_stream=end_stream)):
            self._writer.add(update)
        if stream.is_over:
            # Answered before the whole request came.
            stream.is_received = end_stream
            self.on_ignored()
        else:
            stream.take(content, end_stream=end_stream)

    def on_reset(self, stream_id: int, code: int) -> None:  # noqa: ARG002 - given up, whatever the cause
        """Drop a request that nobody waits for any more."""
        if stream_id > self._last_id or not stream_id % 2:
            raise _not_begun("RST_STREAM")
        self.on_ignored()
        if stream := self._streams.get(stream_id):
            self._forget(stream)

    def on_settings(self, settings: list[tuple[int, int]]) -> None:
        """Apply the client's settings and acknowledge them."""
        self.on_ignored()
        window = self._peer.initial_window_size
        self._peer.update(settings)
        self._send_window.shift_streams(self._streams.values(), self._peer.initial_window_size - window)
        self._writer.add(settings_ack())
        self._send_blocked()

    def on_settings_ack(self) -> None:
        """Note that the client has our settings."""
        self.on_ignored()
        self._keep_alive.settings_acknowledged()

    def on_ping(self, payload: bytes, *, ack: bool) -> None:
        """Answer a PING, or note that ours was answered."""
        self.on_ignored()
        if ack:
            self._keep_alive.ping_acknowledged(payload)
        else:
            self._writer.add(ping_frame(payload, ack=True))

    def on_goaway(self, last_stream_id: int, code: int) -> None:  # noqa: ARG002 - a server begins no streams
        """Note that the client leaves: it closes the connection itself, when its requests are answered."""
        self.on_ignored()

    def on_window_update(self, stream_id: int, increment: int) -> None:
        """Send what waited for a window."""
        self._keep_alive.count_window_update()
        if not stream_id:
            self._send_window.enlarge(increment)
        elif stream := self._streams.get(stream_id):
            self._send_window.enlarge_stream(stream, increment)
        else:
            self._check_begun(stream_id, "WINDOW_UPDATE")
            self.on_ignored()
        self._send_blocked()

    def on_ignored(self) -> None:
        """Count a frame that carries nothing."""
        self._keep_alive.count_idle_frame(self._last_id // 2 + 1)

    def on_stream_fault(self, stream_id: int, fault: StreamFault) -> None:
        """Reset a stream whose client broke a rule."""
        self._check_begun(stream_id, "a malformed frame")
        self._reset_stream(stream_id, fault.code)

    def _begin(self, data: bytes) -> None:
        """Check the preface of the client, then read frames."""
        self._preface += data
        if not PREFACE.startswith(self._preface[: len(PREFACE)]):
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "no connection preface")
        if len(self._preface) >= len(PREFACE):
            rest, self._preface = self._preface[len(PREFACE) :], b""
            self._feed = self._reader.feed
            self._reader.feed(rest)

    def _take_trailers(self, stream_id: int, block: bytes, *, end_stream: bool) -> None:
        stream = self._streams.get(stream_id)
        if stream is None:
            self._check_closed(stream_id, "HEADERS")
            self._heads.skip(block)
            return
        self._heads.read_trailers(block)
        if stream.is_received:
            raise StreamFault(ErrorCode.STREAM_CLOSED, "HEADERS after the end of the request")
        if not end_stream:
            raise StreamFault(ErrorCode.PROTOCOL_ERROR, "trailers that do not end the request")
        if stream.is_over:
            stream.is_received = True
        else:
            stream.take(b"", end_stream=True)

    def _check_closed(self, stream_id: int, name: str) -> None:
        """Ignore a frame for a stream that was reset here; any other closed stream had ended."""
        self._check_begun(stream_id, name)
        if stream_id not in self._reset:
            raise ConnectionFault(ErrorCode.STREAM_CLOSED, f"{name} for a stream that had ended")
        self.on_ignored()

    def _check_begun(self, stream_id: int, name: str) -> None:
        if stream_id > self._last_id or not stream_id % 2:
            raise _not_begun(name)

    def _close(self, stream: Stream) -> None:
        """Close a stream whose answer is complete; the rest of its request, if any, is of no use."""
        flushes = self._writer.flushes
        self._unwritten = self._unwritten + 1 if self._flushes == flushes else 1
        self._flushes = flushes
        del self._streams[stream.stream_id]
        if not stream.is_received:
            self._reset_stream(stream.stream_id, ErrorCode.NO_ERROR)
        if self._leaving:
            self._close_if_done()

    def _forget(self, stream: Stream) -> None:
        del self._streams[stream.stream_id]
        self._send_window.blocked.pop(stream.stream_id, None)
        stream.end()
        if self._leaving:
            self._close_if_done()

    def _reset_stream(self, stream_id: int, code: ErrorCode) -> None:
        self._writer.add(reset_frame(stream_id, code))
        self._reset[stream_id] = None
        if len(self._reset) > MOST_RESETS:
            del self._reset[next(iter(self._reset))]
        if stream := self._streams.get(stream_id):
            self._forget(stream)

    def _send_blocked(self) -> None:
        blocked = [self._streams[stream_id] for stream_id in self._send_window.blocked]
        if not blocked:
            return
        self._writer.add(*self._send_window.send_blocked())
        for stream in blocked:
            if not stream.unsent:
                self._close(stream)

    def _close_if_done(self) -> None:
        if not self._streams:
            self._end(ErrorCode.NO_ERROR)

    def _end(self, code: ErrorCode, detail: str = "", *, abort: bool = False) -> None:
        """Close the connection and give up what has no answer yet."""
        if self._ended:
            return
        self._ended = True
        streams, self._streams = list(self._streams.values()), {}
        for stream in streams:
            stream.end()
        if not abort:
            self._writer.flush()
        self._writer.end(goaway_frame(code, detail, self._last_id), abort=abort)


def _not_begun(name: str) -> ConnectionFault:
    return ConnectionFault(ErrorCode.PROTOCOL_ERROR, f"{name} for a stream that was not begun")
