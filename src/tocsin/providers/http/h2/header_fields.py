"""The header fields of requests and answers, and the rules for them (RFC 9113, section 8)."""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple

from tocsin.providers.http.h2.errors import ErrorCode, StreamFault
from tocsin.providers.http.h2.hpack_blocks import Fields, decode_block, encode_field

LIST_OVERHEAD = 1_024
"""By how much the fields of a request may be larger than their block, as MAX_HEADER_LIST_SIZE counts them."""

MOST_KNOWN_BLOCKS = 512
SWITCHING_PROTOCOLS, OK = 101, 200

_SENSITIVE = frozenset({"authorization"})
_NAME = re.compile(rb"[!#$%&'*+\-.^_`|~0-9a-z]+")
# No control characters but tab, and no space at either end.
_VALUE = re.compile(rb"(?:[!-~\x80-\xff](?:[\t -~\x80-\xff]*[!-~\x80-\xff])?)?")
_OF_ONE_CONNECTION = frozenset(
    {b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade"}
)
_STATUS = re.compile(rb"[1-9][0-9][0-9]")
_LENGTH = re.compile(r"[0-9]{1,18}", re.ASCII)


class RequestHead(NamedTuple):
    """The constant part of requests to one origin: what comes before their path and what comes after it."""

    before_path: bytes
    after_path: bytes

    def __repr__(self) -> str:
        """Show nothing of the headers, which have credentials."""
        return "RequestHead()"


class ResponseHead(NamedTuple):
    """The header fields of an answer; names are in lower case, and values of one name are joined."""

    status: int
    headers: Mapping[str, str]
    content_length: int | None

    @property
    def is_interim(self) -> bool:
        """Whether the answer itself is still to come."""
        return self.status < OK


def request_head(*, secure: bool, authority: str, headers: Mapping[str, str]) -> RequestHead:
    """Encode what all POST requests with these headers have in common."""
    pseudo = {":method": "POST", ":scheme": "https" if secure else "http", ":authority": authority}
    return RequestHead(
        b"".join(field(name, value) for name, value in pseudo.items()),
        b"".join(field(name.lower(), value) for name, value in headers.items()),
    )


def field(name: str, value: str) -> bytes:
    """Encode one header field; raise ValueError for what no request can have."""
    raw, content = name.encode(), value.encode()
    if not _NAME.fullmatch(raw, raw.startswith(b":")) or not _VALUE.fullmatch(content):
        raise ValueError(f"the header {name!r} cannot have this value")
    return encode_field(raw, content, sensitive=name in _SENSITIVE)


@lru_cache(8_192)
def content_length(length: int) -> bytes:
    """Encode the length of a body."""
    return field("content-length", str(length))


class ResponseHeads:
    """Decodes the header blocks of answers and remembers some: those of one origin repeat."""

    def __init__(self) -> None:
        self._known: dict[bytes, ResponseHead] = {}

    def decode(self, block: bytes) -> ResponseHead:
        """Return the head of an answer; raise ConnectionFault or StreamFault for one that breaks a rule."""
        head = self._known.get(block)
        if head is None:
            head = read_response(decode_block(block))
            if len(self._known) >= MOST_KNOWN_BLOCKS:
                self._known.clear()
            self._known[block] = head
        return head


def read_response(fields: Fields) -> ResponseHead:
    """Check the header fields of an answer."""
    if not fields or fields[0][0] != b":status" or not _STATUS.fullmatch(fields[0][1]):
        raise _malformed("an answer that does not begin with its status")
    status = int(fields[0][1])
    if status == SWITCHING_PROTOCOLS:
        raise _malformed("status 101, which HTTP/2 does not have")
    headers = _regular(fields[1:])
    length = headers.get("content-length")
    if length is not None and not _LENGTH.fullmatch(length):
        raise _malformed("a content-length that is no number")
    return ResponseHead(status, headers, None if length is None else int(length))


def check_trailers(fields: Fields) -> None:
    """Check the header fields that follow the content of an answer."""
    _regular(fields)


def _regular(fields: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for raw, content in fields:
        name, value = _checked(raw, content)
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers


@lru_cache(1_024)
def _checked(name: bytes, value: bytes) -> tuple[str, str]:
    if not _NAME.fullmatch(name) or name in _OF_ONE_CONNECTION:
        raise _malformed("a header that an answer cannot have")
    if not _VALUE.fullmatch(value):
        raise _malformed("a header with characters that no value has")
    return name.decode(), value.decode("utf-8", "replace")


def _malformed(detail: str) -> StreamFault:
    return StreamFault(ErrorCode.PROTOCOL_ERROR, detail)
