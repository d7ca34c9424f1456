"""Flow control (RFC 9113, section 5.2): what may be sent, and what the peer may send."""

from collections.abc import Iterable
from typing import Protocol

from tocsin.http2.errors import ConnectionFault, ErrorCode, StreamFault
from tocsin.http2.frames import (
    DEFAULT_FRAME_SIZE,
    DEFAULT_WINDOW,
    END_STREAM,
    LARGEST_WINDOW,
    FrameType,
    frame,
    window_update_frame,
)

CONNECTION_WINDOW = 4 * 1_024 * 1_024
"""What the peer may send on all streams together before it has to wait for us."""


class Stream(Protocol):
    """What flow control needs of a stream."""

    stream_id: int
    window: int
    """How much the peer lets us send."""
    unsent: bytes
    """The rest of the body that the window has no room for."""
    receive_window: int
    """How much the peer may send."""


class SendWindow:
    """The window of the connection, and the bodies that wait for it or for the window of their stream."""

    def __init__(self) -> None:
        self.size = DEFAULT_WINDOW
        self.blocked: dict[int, Stream] = {}

    def enlarge(self, increment: int) -> None:
        """Take WINDOW_UPDATE for the connection."""
        if not increment:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "WINDOW_UPDATE by nothing")
        self.size += increment
        if self.size > LARGEST_WINDOW:
            raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, "the window of the connection is too large")

    def enlarge_stream(self, stream: Stream, increment: int) -> None:
        """Take WINDOW_UPDATE for a stream."""
        if not increment:
            raise StreamFault(ErrorCode.PROTOCOL_ERROR, "WINDOW_UPDATE by nothing")
        stream.window += increment
        if stream.window > LARGEST_WINDOW:
            raise StreamFault(ErrorCode.FLOW_CONTROL_ERROR, "the window of a stream is too large")

    def shift_streams(self, streams: Iterable[Stream], difference: int) -> None:
        """Take another INITIAL_WINDOW_SIZE, which may leave the windows of open streams below 0."""
        for stream in streams:
            stream.window += difference
            if stream.window > LARGEST_WINDOW:
                raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, "the window of a stream is too large")

    def send(self, stream: Stream, body: bytes) -> list[bytes]:
        """Build DATA for as much of a body as the windows have room for; the rest waits.

        No frame is larger than every peer takes, whatever its MAX_FRAME_SIZE.
        """
        frames: list[bytes] = []
        while body:
            count = min(len(body), self.size, stream.window, DEFAULT_FRAME_SIZE)
            if count <= 0:
                break
            part, body = body[:count], body[count:]
            self.size -= count
            stream.window -= count
            frames.append(frame(FrameType.DATA, 0 if body else END_STREAM, stream.stream_id, part))
        stream.unsent = body
        if body:
            self.blocked[stream.stream_id] = stream
        else:
            self.blocked.pop(stream.stream_id, None)
        return frames

    def send_blocked(self) -> list[bytes]:
        """Build DATA for what waited, the oldest first."""
        return [each for stream in list(self.blocked.values()) for each in self.send(stream, stream.unsent)]


class ReceiveWindow:
    """The window of the connection for what the peer sends; half of it used up, it is filled again."""

    def __init__(self) -> None:
        self._left = CONNECTION_WINDOW

    def opening(self) -> bytes:
        """Build the WINDOW_UPDATE that a connection begins with."""
        return window_update_frame(0, CONNECTION_WINDOW - DEFAULT_WINDOW)

    def take(self, length: int) -> bytes:
        """Count what came, also for streams that are closed; return the WINDOW_UPDATE that is due, if any."""
        self._left -= length
        if self._left < 0:
            raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, "more content than the connection allows")
        if self._left > CONNECTION_WINDOW // 2:
            return b""
        increment, self._left = CONNECTION_WINDOW - self._left, CONNECTION_WINDOW
        return window_update_frame(0, increment)


def take_stream(stream: Stream, length: int, *, end_stream: bool) -> bytes:
    """Count what came on a stream; return the WINDOW_UPDATE that is due, if any."""
    stream.receive_window -= length
    if stream.receive_window < 0:
        raise StreamFault(ErrorCode.FLOW_CONTROL_ERROR, "more content than the stream allows")
    if end_stream or stream.receive_window > DEFAULT_WINDOW // 2:
        return b""
    increment, stream.receive_window = DEFAULT_WINDOW - stream.receive_window, DEFAULT_WINDOW
    return window_update_frame(stream.stream_id, increment)
