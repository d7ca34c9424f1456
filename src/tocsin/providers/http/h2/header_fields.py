"""The heads of requests and answers."""

import re
from collections.abc import Mapping
from typing import NamedTuple

from tocsin.http2.fields import field, malformed, read_content_length, read_headers
from tocsin.http2.hpack_blocks import Fields, decode_block

LIST_OVERHEAD = 1_024
"""By how much the fields of a request may be larger than their block, as MAX_HEADER_LIST_SIZE counts them."""

MOST_KNOWN_BLOCKS = 512
LONGEST_KNOWN_BLOCK = 1_024
SWITCHING_PROTOCOLS, OK = 101, 200
"""With a status below OK, the answer itself is still to come."""

_STATUS = re.compile(rb"[1-9][0-9][0-9]")


class RequestHead(NamedTuple):
    """The constant part of requests to one origin: what comes before their path and what comes after it."""

    before_path: bytes
    after_path: bytes

    def at(self, path: bytes) -> "RequestHead":
        """Return the head of requests that all have this path, and are sent with an empty one."""
        return RequestHead(self.before_path + path + self.after_path, b"")

    def __repr__(self) -> str:
        """Show nothing of the headers, which have credentials."""
        return "RequestHead()"


class ResponseHead(NamedTuple):
    """The header fields of an answer; names are in lower case, and values of one name are joined."""

    status: int
    headers: Mapping[str, str]
    content_length: int | None


def request_head(*, secure: bool, authority: str, headers: Mapping[str, str]) -> RequestHead:
    """Encode what all POST requests with these headers have in common."""
    pseudo = {":method": "POST", ":scheme": "https" if secure else "http", ":authority": authority}
    return RequestHead(
        b"".join(field(name, value) for name, value in pseudo.items()),
        b"".join(field(name.lower(), value) for name, value in headers.items()),
    )


class ResponseHeads:
    """Decodes the header blocks of answers and remembers some: those of one origin repeat."""

    def __init__(self) -> None:
        self._known: dict[bytes, ResponseHead] = {}

    def decode(self, block: bytes) -> ResponseHead:
        """Return the head of an answer; raise ConnectionFault or StreamFault for one that breaks a rule."""
        head = self._known.get(block)
        if head is None:
            head = read_response(decode_block(block))
            if len(block) <= LONGEST_KNOWN_BLOCK:
                if len(self._known) >= MOST_KNOWN_BLOCKS:
                    self._known.clear()
                self._known[block] = head
        return head


def read_response(fields: Fields) -> ResponseHead:
    """Check the header fields of an answer."""
    if not fields or fields[0][0] != b":status" or not _STATUS.fullmatch(fields[0][1]):
        raise malformed("an answer that does not begin with its status")
    status = int(fields[0][1])
    if status == SWITCHING_PROTOCOLS:
        raise malformed("status 101, which HTTP/2 does not have")
    headers = read_headers(fields[1:])
    return ResponseHead(status, headers, read_content_length(headers))


def check_trailers(fields: Fields) -> None:
    """Check the header fields that follow the content of an answer."""
    read_headers(fields)
