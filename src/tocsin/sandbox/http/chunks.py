"""Bodies of HTTP/1.1: of a known length, or in chunks (RFC 9112, section 7.1)."""

import re

from tocsin.sandbox.http.bodies import MOST_BODY_BYTES, BodyMemory, BodyTooLargeError, PartialBody
from tocsin.sandbox.http.request_heads import BadHeadError

_MOST_LINE_BYTES = 256
_MOST_TRAILER_BYTES = 8_192
_SIZE = re.compile(rb"([0-9A-Fa-f]{1,8})(?:[ \t]*;[\t -~\x80-\xff]*)?")


class SizedBody:
    """A body of a known length."""

    def __init__(self, length: int, memory: BodyMemory) -> None:
        if length > MOST_BODY_BYTES:
            raise BodyTooLargeError
        self._left = length
        self._content = PartialBody(memory)

    def take(self, buffer: bytearray) -> bytes | None:
        """Take what came out of the buffer; return the body when it is complete."""
        if self._left <= len(buffer) and not self._content:
            body, self._left = bytes(buffer[: self._left]), 0
            del buffer[: len(body)]
            return body
        part = buffer[: self._left]
        self._content.add(part)
        self._left -= len(part)
        del buffer[: len(part)]
        return None if self._left else self._content.release()

    def release(self) -> None:
        """Free the memory of a body that will not be complete."""
        self._content.release()


class ChunkedBody:
    """A body in chunks, with trailers that nobody reads."""

    def __init__(self, memory: BodyMemory) -> None:
        self._content = PartialBody(memory)
        self._left = 0
        self._trailer_bytes: int | None = None
        """How many bytes of trailers came, after the last chunk."""
        self._is_after_chunk = False

    def take(self, buffer: bytearray) -> bytes | None:
        """Take what came out of the buffer; return the body when it is complete."""
        while True:
            if self._left:
                part = buffer[: self._left]
                self._content.add(part)
                self._left -= len(part)
                del buffer[: len(part)]
                if self._left:
                    return None
                self._is_after_chunk = True
            line = _take_line(buffer)
            if line is None:
                return None
            if self._trailer_bytes is not None:
                if not line:
                    return self._content.release()
                self._count_trailer(line)
            elif self._is_after_chunk:
                if line:
                    raise BadHeadError
                self._is_after_chunk = False
            else:
                self._begin_chunk(line)

    def release(self) -> None:
        """Free the memory of a body that will not be complete."""
        self._content.release()

    def _begin_chunk(self, line: bytes) -> None:
        size = _SIZE.fullmatch(line)
        if size is None:
            raise BadHeadError
        self._left = int(size[1], 16)
        if self._left > MOST_BODY_BYTES:
            raise BodyTooLargeError
        if not self._left:
            self._trailer_bytes = 0

    def _count_trailer(self, line: bytes) -> None:
        self._trailer_bytes = (self._trailer_bytes or 0) + len(line)
        if b":" not in line or self._trailer_bytes > _MOST_TRAILER_BYTES:
            raise BadHeadError


def _take_line(buffer: bytearray) -> bytes | None:
    """Take a line out of the buffer, if a whole one is there."""
    end = buffer.find(b"\r\n", 0, _MOST_LINE_BYTES)
    if end < 0:
        if len(buffer) >= _MOST_LINE_BYTES:
            raise BadHeadError
        return None
    line = bytes(buffer[:end])
    del buffer[: end + 2]
    return line
