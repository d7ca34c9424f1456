"""The heads of requests in both forms, header blocks and text, checked and then remembered."""

import re
from collections.abc import Callable, Iterable, Mapping
from http import HTTPMethod, HTTPStatus
from typing import NamedTuple, TypeVar
from urllib.parse import unquote

import msgspec

from tocsin.http2.errors import StreamFault
from tocsin.http2.fields import malformed, read_content_length, read_headers, read_value
from tocsin.http2.header_tables import DynamicTable
from tocsin.http2.hpack_blocks import Fields, decode_block, resizes_table
from tocsin.sandbox.stand_in import HttpStandIn

MOST_KNOWN = 512
MOST_KNOWN_BYTES = 4_096
"""The most bytes of a head that is remembered."""

_PSEUDO = frozenset({b":method", b":scheme", b":authority", b":path"})
_METHOD = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,32}", re.ASCII)
_REQUEST_LINE = re.compile(rb"([^ ]{1,32}) ([!-~\x80-\xff]+) HTTP/1\.([01])")
_ABSOLUTE = re.compile(r"https?://([^/?#]*)", re.ASCII | re.IGNORECASE)
_NAME = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")

Head = TypeVar("Head")
FindStandIn = Callable[[str, str], HttpStandIn | None]


class RequestHead(msgspec.Struct, frozen=True):
    """The head of a request, and the stand-in that it is for, if any.

    `path` is decoded, `query` is not. Names of headers are in lower case, and values of one name are joined.
    """

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    origin: str
    content_length: int | None
    stand_in: HttpStandIn | None


class TextHead(NamedTuple):
    """The head of a request in HTTP/1.1 or 1.0, and what it says about the connection."""

    head: RequestHead
    is_chunked: bool
    expects_continue: bool
    keeps_alive: bool


class BadHeadError(Exception):
    """The head of a request in HTTP/1.1 is malformed; `status` is the answer."""

    def __init__(self, status: HTTPStatus = HTTPStatus.BAD_REQUEST) -> None:
        super().__init__(status.phrase)
        self.status = status


class RequestHeads:
    """Decodes the heads of one listener: most are like one before, but for clients that name each message."""

    def __init__(self, scheme: str, find_stand_in: FindStandIn) -> None:
        self._scheme = scheme
        self._find_stand_in = find_stand_in
        self.blocks: dict[bytes, RequestHead] = {}
        """The heads of blocks that need no dynamic table: they mean the same on every connection."""
        self._texts: dict[bytes, TextHead] = {}

    def read(self, fields: Fields) -> RequestHead:
        """Check the fields of a request; raise StreamFault if they break a rule (RFC 9113, section 8.3.1)."""
        pseudo: dict[bytes, str] = {}
        at = 0
        for name, value in fields:
            if not name.startswith(b":"):
                break
            if name not in _PSEUDO or name in pseudo:
                raise malformed("a pseudo-header that a request does not have")
            pseudo[name] = read_value(value)
            at += 1
        headers = read_headers(fields[at:])
        if not pseudo.get(b":scheme") or headers.get("te", "trailers") != "trailers":
            raise malformed("a request without its scheme, or with TE")
        return self._head(
            pseudo.get(b":method", ""), pseudo.get(b":path", ""), pseudo.get(b":authority"), headers
        )

    def parse(self, text: bytes) -> TextHead:
        """Parse a head of HTTP/1.1 without the empty line at its end; raise BadHeadError if malformed."""
        known = self._texts.get(text)
        if known is None:
            try:
                known = self._parse(text)
            except StreamFault:
                raise BadHeadError from None
            _remember(self._texts, text, known)
        return known

    def _parse(self, text: bytes) -> TextHead:
        first, *lines = text.split(b"\r\n")
        if not (parts := _REQUEST_LINE.fullmatch(first)):
            raise BadHeadError
        about_connection, fields = _split(lines)
        headers = read_headers(fields)
        is_old = parts[3] == b"0"
        if not is_old and "host" not in headers:
            raise BadHeadError
        target = parts[2].decode("utf-8", "replace")
        absolute = _ABSOLUTE.match(target)
        if absolute:
            target = "/" + target[absolute.end() :].removeprefix("/")
        head = self._head(parts[1].decode("latin-1"), target, absolute and absolute[1], headers)
        coding = about_connection.get("transfer-encoding")
        if coding is not None and (is_old or head.content_length is not None):
            raise BadHeadError
        if coding not in {None, "chunked"}:
            raise BadHeadError(HTTPStatus.NOT_IMPLEMENTED)
        options = {option.strip() for option in about_connection.get("connection", "").split(",")}
        return TextHead(
            head,
            is_chunked=coding is not None,
            expects_continue=not is_old and headers.get("expect", "").lower() == "100-continue",
            keeps_alive=not is_old and "close" not in options,
        )

    def _head(self, method: str, target: str, authority: str | None, headers: dict[str, str]) -> RequestHead:
        raw_path, _, query = target.partition("?")
        is_path = target.startswith("/") or (target == "*" and method == HTTPMethod.OPTIONS)
        if not _METHOD.fullmatch(method) or not is_path:
            raise malformed("a request without a method or path")
        path = unquote(raw_path) if "%" in raw_path else raw_path
        origin = f"{self._scheme}://{authority or headers.get('host', '')}"
        length = read_content_length(headers)
        return RequestHead(method, path, query, headers, origin, length, self._find_stand_in(method, path))


class HeadDecoder:
    """Decodes the header blocks of one connection, whose client may use a dynamic table."""

    def __init__(self, heads: RequestHeads) -> None:
        self._heads = heads
        self._table = DynamicTable()
        self._known: dict[bytes, RequestHead] = {}

    def decode(self, block: bytes) -> RequestHead:
        """Return the head of a request; raise ConnectionFault or StreamFault for one that breaks a rule."""
        head = self._known.get(block)
        return self._read(block) if head is None else head

    def read_trailers(self, block: bytes) -> None:
        """Check the fields after a body."""
        read_headers(self._decode(block))

    def skip(self, block: bytes) -> None:
        """Decode a block that nobody is interested in, for it may change the table."""
        self._decode(block)

    def _read(self, block: bytes) -> RequestHead:
        table = self._table
        before = table.changes
        needs_table = not table.is_off or resizes_table(block)
        head = self._heads.read(self._decode(block) if needs_table else decode_block(block))
        if table.changes == before:
            _remember(self._known, block, head)
        return head

    def _decode(self, block: bytes) -> Fields:
        """Decode a block; once the table changed, those that were known may mean something else."""
        table = self._table
        before = table.changes
        try:
            return decode_block(block, table)
        finally:
            if table.changes != before:
                self._known = self._heads.blocks if table.is_off else {}


def _split(lines: Iterable[bytes]) -> tuple[dict[str, str], Fields]:
    """Split header lines into what they say about the connection, and the fields that HTTP/2 has as well."""
    about_connection: dict[str, str] = {}
    fields: Fields = []
    for line in lines:
        raw, colon, value = line.partition(b":")
        if not colon or not _NAME.fullmatch(raw):
            raise BadHeadError
        name, value = raw.lower(), value.strip(b" \t")
        if name in {b"connection", b"transfer-encoding"}:
            text, before = read_value(value).lower(), about_connection.get(name.decode())
            about_connection[name.decode()] = f"{before}, {text}" if before else text
        elif name not in {b"keep-alive", b"proxy-connection", b"upgrade"}:
            fields.append((name, value))
    return about_connection, fields


def _remember(known: dict[bytes, Head], encoded: bytes, head: Head) -> None:
    if len(encoded) > MOST_KNOWN_BYTES:
        return
    if len(known) >= MOST_KNOWN:
        known.clear()
    known[encoded] = head
