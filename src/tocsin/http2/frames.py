"""Builds frames, and the constants of RFC 9113."""

from collections.abc import Iterator, Mapping
from enum import IntEnum
from struct import Struct

from tocsin.http2.errors import ErrorCode

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DEFAULT_WINDOW = 65_535
LARGEST_WINDOW = 2**31 - 1
DEFAULT_FRAME_SIZE = 16_384
LARGEST_FRAME_SIZE = 2**24 - 1
LAST_STREAM_ID = 2**31 - 1

# Type, flags and stream id; the length before them has three bytes, for which struct has no letter.
HEAD = Struct(">HBBBL")
HEAD_BYTES = 9

END_STREAM = 0x1
ACK = 0x1
END_HEADERS = 0x4
PADDED = 0x8
PRIORITY = 0x20

_SETTING = Struct(">HL")
_NUMBER = Struct(">L")
_GOAWAY = Struct(">LL")


class FrameType(IntEnum):
    """The frame types of RFC 9113, section 6."""

    DATA = 0x0
    HEADERS = 0x1
    PRIORITY = 0x2
    RST_STREAM = 0x3
    SETTINGS = 0x4
    PUSH_PROMISE = 0x5
    PING = 0x6
    GOAWAY = 0x7
    WINDOW_UPDATE = 0x8
    CONTINUATION = 0x9


class Setting(IntEnum):
    """The settings of RFC 9113, section 6.5.2."""

    HEADER_TABLE_SIZE = 0x1
    ENABLE_PUSH = 0x2
    MAX_CONCURRENT_STREAMS = 0x3
    INITIAL_WINDOW_SIZE = 0x4
    MAX_FRAME_SIZE = 0x5
    MAX_HEADER_LIST_SIZE = 0x6


def frame(kind: int, flags: int, stream_id: int, payload: bytes = b"") -> bytes:
    """Build one frame."""
    length = len(payload)
    return HEAD.pack(length >> 8, length & 0xFF, kind, flags, stream_id) + payload


def settings_frame(settings: Mapping[int, int]) -> bytes:
    """Build SETTINGS."""
    payload = b"".join(_SETTING.pack(name, value) for name, value in settings.items())
    return frame(FrameType.SETTINGS, 0, 0, payload)


def settings_ack() -> bytes:
    """Build the acknowledgement of SETTINGS."""
    return frame(FrameType.SETTINGS, ACK, 0)


def read_settings(payload: bytes) -> list[tuple[int, int]]:
    """Return the settings of a frame in their order: a later one overrides an earlier one."""
    return list(_SETTING.iter_unpack(payload))


def ping_frame(payload: bytes, *, ack: bool) -> bytes:
    """Build PING or its acknowledgement."""
    return frame(FrameType.PING, ACK if ack else 0, 0, payload)


def reset_frame(stream_id: int, code: ErrorCode) -> bytes:
    """Build RST_STREAM."""
    return frame(FrameType.RST_STREAM, 0, stream_id, _NUMBER.pack(code))


def window_update_frame(stream_id: int, increment: int) -> bytes:
    """Build WINDOW_UPDATE, for a stream or, with 0, for the connection."""
    return frame(FrameType.WINDOW_UPDATE, 0, stream_id, _NUMBER.pack(increment))


def goaway_frame(code: ErrorCode, detail: str = "", last_stream_id: int = 0) -> bytes:
    """Build GOAWAY; a client accepts no streams of its peer, so that the last one is always 0."""
    return frame(FrameType.GOAWAY, 0, 0, _GOAWAY.pack(last_stream_id, code) + detail.encode())


def header_frames(stream_id: int, block: bytes, *, end_stream: bool) -> Iterator[bytes]:
    """Build HEADERS, and CONTINUATION for what does not fit in one frame."""
    most = DEFAULT_FRAME_SIZE
    flags = END_STREAM if end_stream else 0
    first, rest = block[:most], block[most:]
    yield frame(FrameType.HEADERS, flags if rest else flags | END_HEADERS, stream_id, first)
    while rest:
        part, rest = rest[:most], rest[most:]
        yield frame(FrameType.CONTINUATION, 0 if rest else END_HEADERS, stream_id, part)


def number(payload: bytes) -> int:
    """Read a number of 31 bits; the reserved bit before it is ignored."""
    value: int = _NUMBER.unpack_from(payload)[0]
    return value & LARGEST_WINDOW


def error_code(payload: bytes) -> int:
    """Read an error code, which has all 32 bits."""
    value: int = _NUMBER.unpack_from(payload)[0]
    return value
