"""The heads of answers in both forms; what many have in common is encoded once a second."""

import time
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus
from http.client import responses

from tocsin.http2.fields import content_length, field
from tocsin.sandbox.responses import Headers, Response

MOST_KNOWN = 1_024
_WITHOUT_LENGTH = frozenset({HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED})


class ResponseHeads:
    """Encodes heads with the date of the moment, in which they stay the same for a second.

    A head announces `length` instead of that of the body, if it is given. What HTTP does not have raises
    ValueError.
    """

    def __init__(self) -> None:
        self._second = 0
        self._date = ""
        self._blocks: dict[tuple[int, Headers, int], bytes] = {}

    def block(self, response: Response, length: int | None = None) -> bytes:
        """Encode the head of an answer as a header block."""
        self._read_clock()
        announced = len(response.body) if length is None else length
        key = response.status, response.headers, announced
        block = self._blocks.get(key)
        if block is None:
            block = _block(response.status, response.headers) + field("date", self._date)
            if response.status not in _WITHOUT_LENGTH:
                block += content_length(announced)
            if len(self._blocks) < MOST_KNOWN:
                self._blocks[key] = block
        return block

    def text(self, response: Response, length: int | None = None, *, keeps_alive: bool) -> bytes:
        """Encode the head of an answer as the text of HTTP/1.1."""
        self._read_clock()
        text = _text(response.status, response.headers)
        lines = [f"date: {self._date}"]
        if response.status not in _WITHOUT_LENGTH:
            lines.append(f"content-length: {len(response.body) if length is None else length}")
        if not keeps_alive:
            lines.append("connection: close")
        return text + "\r\n".join([*lines, "\r\n"]).encode()

    def _read_clock(self) -> None:
        second = int(time.time())
        if second != self._second:
            self._second, self._date = second, formatdate(second, usegmt=True)
            self._blocks.clear()


@lru_cache(MOST_KNOWN)
def _block(status: int, headers: Headers) -> bytes:
    return _status_field(status) + b"".join([field(name, value) for name, value in headers])


@lru_cache(MOST_KNOWN)
def _text(status: int, headers: Headers) -> bytes:
    for name, value in headers:
        # The same rules hold, and they keep a line break out.
        field(name, value)
    lines = [
        f"HTTP/1.1 {int(status)} {responses.get(status, '')}",
        *(f"{name}: {value}" for name, value in headers),
    ]
    return "".join(f"{line}\r\n" for line in lines).encode()


@lru_cache(MOST_KNOWN)
def _status_field(status: int) -> bytes:
    return field(":status", str(int(status)))
