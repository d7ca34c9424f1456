"""Header fields of requests and answers, and the rules for them (RFC 9113, section 8)."""

import re
from collections.abc import Iterable
from functools import lru_cache

from tocsin.http2.errors import ErrorCode, StreamFault
from tocsin.http2.hpack_blocks import encode_field

_SENSITIVE = frozenset({"authorization"})
_NAME = re.compile(rb"[!#$%&'*+\-.^_`|~0-9a-z]+")
# No control characters but tab, and no space at either end.
_VALUE = re.compile(rb"(?:[!-~\x80-\xff](?:[\t -~\x80-\xff]*[!-~\x80-\xff])?)?")
_OF_ONE_CONNECTION = frozenset(
    {b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade"}
)
MOST_KNOWN_NAMES, LONGEST_KNOWN_NAME = 1_024, 64
"""How many names are remembered once they were checked; a peer must not fill our memory."""

_LENGTH = re.compile(r"[0-9]{1,18}", re.ASCII)


def field(name: str, value: str) -> bytes:
    """Encode one header field; raise ValueError for what no message can have."""
    raw, content = name.encode(), value.encode()
    if not _NAME.fullmatch(raw, raw.startswith(b":")) or not _VALUE.fullmatch(content):
        raise ValueError(f"the header {name!r} cannot have this value")
    return encode_field(raw, content, sensitive=name in _SENSITIVE)


@lru_cache(8_192)
def content_length(length: int) -> bytes:
    """Encode the length of a body."""
    return field("content-length", str(length))


def read_headers(fields: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Check fields other than pseudo-fields, and return them by name; values of one name are joined."""
    headers: dict[str, str] = {}
    for raw, content in fields:
        name, value = _known_names.get(raw) or _read_name(raw), read_value(content)
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers


def read_content_length(headers: dict[str, str]) -> int | None:
    """Return the length of a body as the headers announce it, if they do."""
    length = headers.get("content-length")
    if length is None:
        return None
    if not _LENGTH.fullmatch(length):
        raise malformed("a content-length that is no number")
    return int(length)


def _read_name(name: bytes) -> str:
    if not _NAME.fullmatch(name) or name in _OF_ONE_CONNECTION:
        raise malformed("a header that no message can have")
    text = name.decode()
    if len(_known_names) < MOST_KNOWN_NAMES and len(name) <= LONGEST_KNOWN_NAME:
        _known_names[name] = text
    return text


_known_names: dict[bytes, str] = {}


def read_value(value: bytes) -> str:
    """Check the value of a field and return it as text."""
    text = value.decode("utf-8", "replace")
    if text.isascii() and text.isprintable():
        if text[:1] == " " or text[-1:] == " ":
            raise _wrong_value()
    elif not _VALUE.fullmatch(value):
        raise _wrong_value()
    return text


def _wrong_value() -> StreamFault:
    return malformed("a header with characters that no value has")


def malformed(detail: str) -> StreamFault:
    """Build the fault of a malformed message."""
    return StreamFault(ErrorCode.PROTOCOL_ERROR, detail)
