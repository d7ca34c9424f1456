"""Writes frames: those of one turn of the loop leave together."""

import asyncio

from tocsin.http2.frames import END_HEADERS, END_STREAM, HEAD, FrameType

_HEADERS, _DATA = int(FrameType.HEADERS), int(FrameType.DATA)


class FrameWriter:
    """Collects frames and writes them at the end of the turn; none while the peer reads too slowly.

    `begun` is the highest stream whose request was added, `flushed` the highest that was written: what was
    not written, the peer cannot have processed. `flushes` counts the writes.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._frames: list[bytes] = []
        self.is_scheduled = False
        self._paused = False
        self.transport: asyncio.Transport | None = None
        self.begun = 0
        self.flushed = 0
        self.flushes = 0

    def add_message(self, stream_id: int, block: bytes, body: bytes) -> None:
        """Add a whole request or answer that fits in two frames."""
        self.begun = stream_id
        size, length = len(block), len(body)
        self._frames += (
            HEAD.pack(size >> 8, size & 0xFF, _HEADERS, END_HEADERS, stream_id),
            block,
            HEAD.pack(length >> 8, length & 0xFF, _DATA, END_STREAM, stream_id),
            body,
        )
        if not self.is_scheduled:
            self.is_scheduled = True
            self._loop.call_soon(self.flush)

    def add(self, *frames: bytes, begins: int = 0) -> None:
        """Add frames; they begin the stream `begins`, if any."""
        self.begun = begins or self.begun
        self._frames += frames
        if not self.is_scheduled:
            self.is_scheduled = True
            self._loop.call_soon(self.flush)

    def flush(self) -> None:
        """Write what was added, unless the peer reads too slowly."""
        self.is_scheduled = False
        if self._paused or self.transport is None or not self._frames:
            return
        frames = b"".join(self._frames)
        self._frames.clear()
        self.flushed = self.begun
        self.flushes += 1
        self.transport.write(frames)

    def pause(self) -> None:
        """Write nothing for now."""
        self._paused = True

    def resume(self) -> None:
        """Write what was kept."""
        self._paused = False
        self.flush()

    def end(self, last: bytes, *, abort: bool) -> None:
        """Write a last frame instead of what was kept, and close the transport."""
        transport, self.transport = self.transport, None
        self._frames.clear()
        if transport is None or transport.is_closing():
            return
        if abort or self._paused:
            transport.abort()
            return
        transport.write(last)
        transport.close()
