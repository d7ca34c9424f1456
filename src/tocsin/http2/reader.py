"""Splits what the peer sends into frames and checks all that can be checked without knowing the streams."""

from collections.abc import Callable
from typing import Protocol

from tocsin.http2.errors import ConnectionFault, ErrorCode, StreamFault
from tocsin.http2.frames import (
    ACK,
    DEFAULT_FRAME_SIZE,
    END_HEADERS,
    END_STREAM,
    HEAD,
    HEAD_BYTES,
    LAST_STREAM_ID,
    PADDED,
    PRIORITY,
    FrameType,
    error_code,
    number,
    read_settings,
)

MOST_HEADER_BYTES = 16_384
"""The most bytes of a header block, and of the fields in it."""

_DATA, _HEADERS, _CONTINUATION = int(FrameType.DATA), int(FrameType.HEADERS), int(FrameType.CONTINUATION)
_FRAMING = END_HEADERS | PADDED | PRIORITY
_PRIORITY_BYTES = 5
_PING_BYTES = 8
_GOAWAY_BYTES = 8
_NUMBER_BYTES = 4
_SETTING_BYTES = 6


class FrameHandler(Protocol):
    """What is done with frames; it raises StreamFault or ConnectionFault for those that break a rule."""

    def on_headers(self, stream_id: int, block: bytes, *, end_stream: bool) -> None:
        """Take a whole header block."""

    def on_data(self, stream_id: int, content: bytes, length: int, *, end_stream: bool) -> None:
        """Take content; `length` is what flow control counts, which is more with padding."""

    def on_reset(self, stream_id: int, code: int) -> None:
        """Take RST_STREAM."""

    def on_settings(self, settings: list[tuple[int, int]]) -> None:
        """Take SETTINGS."""

    def on_settings_ack(self) -> None:
        """Take the acknowledgement of our SETTINGS."""

    def on_ping(self, payload: bytes, *, ack: bool) -> None:
        """Take PING or its acknowledgement."""

    def on_goaway(self, last_stream_id: int, code: int) -> None:
        """Take GOAWAY."""

    def on_window_update(self, stream_id: int, increment: int) -> None:
        """Take WINDOW_UPDATE."""

    def on_ignored(self) -> None:
        """Count a frame that says nothing."""

    def on_stream_fault(self, stream_id: int, fault: StreamFault) -> None:
        """Reset a stream."""


class FrameReader:
    """Reads frames out of one buffer.

    The first frame of a peer has to be SETTINGS. Nothing may come between the frames of a header block.
    """

    def __init__(self, handler: FrameHandler) -> None:
        self._handler = handler
        self._rest = b""
        self._begun = False
        self._block: bytearray | None = None
        self._block_stream = 0
        self._block_ends_stream = False
        self._readers: dict[int, Callable[[int, int, bytes], None]] = {
            FrameType.DATA: self._data,
            FrameType.HEADERS: self._headers,
            FrameType.PRIORITY: self._priority,
            FrameType.RST_STREAM: self._reset,
            FrameType.SETTINGS: self._settings,
            FrameType.PUSH_PROMISE: self._push_promise,
            FrameType.PING: self._ping,
            FrameType.GOAWAY: self._goaway,
            FrameType.WINDOW_UPDATE: self._window_update,
            FrameType.CONTINUATION: self._continuation,
        }

    def feed(self, received: bytes) -> None:
        """Read the frames that are complete; raise ConnectionFault if the connection cannot go on."""
        handler = self._handler
        content = self._rest + received if self._rest else received
        size, at = len(content), 0
        while size - at >= HEAD_BYTES:
            high, low, kind, flags, stream_id = HEAD.unpack_from(content, at)
            length = high << 8 | low
            if length > DEFAULT_FRAME_SIZE:
                raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, f"a frame of {length} bytes")
            end = at + HEAD_BYTES + length
            if end > size:
                break
            payload = content[at + HEAD_BYTES : end]
            at = end
            stream_id &= LAST_STREAM_ID
            if not self._begun:
                self._begin(kind, flags)
            if self._block is not None and kind != _CONTINUATION:
                raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "a header block was interrupted")
            try:
                # The frames of most messages need no further checks.
                if kind == _DATA and stream_id and not flags & PADDED:
                    handler.on_data(stream_id, payload, length, end_stream=flags & END_STREAM != 0)
                elif kind == _HEADERS and stream_id and flags & _FRAMING == END_HEADERS:
                    handler.on_headers(stream_id, payload, end_stream=flags & END_STREAM != 0)
                else:
                    self._read(kind, flags, stream_id, payload)
            except StreamFault as fault:
                handler.on_stream_fault(stream_id, fault)
        self._rest = content[at:]

    def _read(self, kind: int, flags: int, stream_id: int, payload: bytes) -> None:
        read = self._readers.get(kind)
        if read is None:
            # An extension that was not agreed on is ignored.
            self._handler.on_ignored()
        else:
            read(flags, stream_id, payload)

    def _begin(self, kind: int, flags: int) -> None:
        if kind != FrameType.SETTINGS or flags & ACK:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "the peer did not begin with SETTINGS")
        self._begun = True

    def _data(self, flags: int, stream_id: int, payload: bytes) -> None:
        if not stream_id:
            raise _on_connection("DATA")
        content = _unpadded(payload) if flags & PADDED else payload
        self._handler.on_data(stream_id, content, len(payload), end_stream=bool(flags & END_STREAM))

    def _headers(self, flags: int, stream_id: int, payload: bytes) -> None:
        if not stream_id:
            raise _on_connection("HEADERS")
        if flags & PADDED:
            payload = _unpadded(payload)
        if flags & PRIORITY:
            if len(payload) < _PRIORITY_BYTES:
                raise _wrong_size("HEADERS")
            payload = payload[_PRIORITY_BYTES:]
        if flags & END_HEADERS:
            self._handler.on_headers(stream_id, payload, end_stream=bool(flags & END_STREAM))
            return
        self._block, self._block_stream = bytearray(payload), stream_id
        self._block_ends_stream = bool(flags & END_STREAM)

    def _continuation(self, flags: int, stream_id: int, payload: bytes) -> None:
        block = self._block
        if block is None or stream_id != self._block_stream:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "CONTINUATION of no header block")
        if not payload:
            self._handler.on_ignored()
        block += payload
        if len(block) > MOST_HEADER_BYTES:
            raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, "a header block without end")
        if flags & END_HEADERS:
            self._block = None
            self._handler.on_headers(stream_id, bytes(block), end_stream=self._block_ends_stream)

    def _priority(self, flags: int, stream_id: int, payload: bytes) -> None:  # noqa: ARG002 - it has no flags
        if not stream_id:
            raise _on_connection("PRIORITY")
        self._handler.on_ignored()
        if len(payload) != _PRIORITY_BYTES:
            raise StreamFault(ErrorCode.FRAME_SIZE_ERROR, "PRIORITY of a wrong size")

    def _reset(self, flags: int, stream_id: int, payload: bytes) -> None:  # noqa: ARG002 - it has no flags
        if not stream_id:
            raise _on_connection("RST_STREAM")
        if len(payload) != _NUMBER_BYTES:
            raise _wrong_size("RST_STREAM")
        self._handler.on_reset(stream_id, error_code(payload))

    def _settings(self, flags: int, stream_id: int, payload: bytes) -> None:
        if stream_id:
            raise _on_stream("SETTINGS")
        if flags & ACK:
            if payload:
                raise _wrong_size("the acknowledgement of SETTINGS")
            self._handler.on_settings_ack()
            return
        if len(payload) % _SETTING_BYTES:
            raise _wrong_size("SETTINGS")
        self._handler.on_settings(read_settings(payload))

    def _push_promise(self, flags: int, stream_id: int, payload: bytes) -> None:  # noqa: ARG002 - never accepted
        raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "PUSH_PROMISE, though push is switched off")

    def _ping(self, flags: int, stream_id: int, payload: bytes) -> None:
        if stream_id:
            raise _on_stream("PING")
        if len(payload) != _PING_BYTES:
            raise _wrong_size("PING")
        self._handler.on_ping(payload, ack=bool(flags & ACK))

    def _goaway(self, flags: int, stream_id: int, payload: bytes) -> None:  # noqa: ARG002 - it has no flags
        if stream_id:
            raise _on_stream("GOAWAY")
        if len(payload) < _GOAWAY_BYTES:
            raise _wrong_size("GOAWAY")
        self._handler.on_goaway(number(payload), error_code(payload[_NUMBER_BYTES:]))

    def _window_update(self, flags: int, stream_id: int, payload: bytes) -> None:  # noqa: ARG002 - it has no flags
        if len(payload) != _NUMBER_BYTES:
            raise _wrong_size("WINDOW_UPDATE")
        self._handler.on_window_update(stream_id, number(payload))


def _unpadded(payload: bytes) -> bytes:
    """Return a payload without its padding, whose length is the first byte."""
    if not payload:
        raise _wrong_size("a padded frame")
    padding = payload[0]
    if padding >= len(payload):
        raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "more padding than payload")
    return payload[1 : len(payload) - padding]


def _on_connection(name: str) -> ConnectionFault:
    return ConnectionFault(ErrorCode.PROTOCOL_ERROR, f"{name} for no stream")


def _on_stream(name: str) -> ConnectionFault:
    return ConnectionFault(ErrorCode.PROTOCOL_ERROR, f"{name} for a stream")


def _wrong_size(name: str) -> ConnectionFault:
    return ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, f"{name} of a wrong size")
