"""The heads of answers in both forms; their constant part is encoded once."""

from functools import lru_cache
from http import HTTPStatus
from http.client import responses

from tocsin.http2.fields import content_length, field
from tocsin.sandbox.responses import Response

_WITHOUT_LENGTH = frozenset({HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED})


def encode_block(response: Response, date: str, length: int | None = None) -> bytes:
    """Encode the head of an answer as a header block; raise ValueError for one that HTTP does not have.

    `length` is announced instead of that of the body.
    """
    block = _block(response.status, tuple(response.headers)) + _date_field(date)
    if response.status in _WITHOUT_LENGTH:
        return block
    return block + content_length(len(response.body) if length is None else length)


def encode_text(response: Response, date: str, length: int | None = None, *, keeps_alive: bool) -> bytes:
    """Encode the head of an answer as the text of HTTP/1.1, likewise."""
    text = _text(response.status, tuple(response.headers))
    lines = [f"date: {date}"]
    if response.status not in _WITHOUT_LENGTH:
        lines.append(f"content-length: {len(response.body) if length is None else length}")
    if not keeps_alive:
        lines.append("connection: close")
    return text + "\r\n".join([*lines, "\r\n"]).encode()


@lru_cache(1_024)
def _block(status: int, headers: tuple[tuple[str, str], ...]) -> bytes:
    return _status_field(status) + b"".join([field(name, value) for name, value in headers])


@lru_cache(1_024)
def _text(status: int, headers: tuple[tuple[str, str], ...]) -> bytes:
    for name, value in headers:
        # The same rules hold, and they keep a line break out.
        field(name, value)
    lines = [
        f"HTTP/1.1 {int(status)} {responses.get(status, '')}",
        *(f"{name}: {value}" for name, value in headers),
    ]
    return "".join(f"{line}\r\n" for line in lines).encode()


@lru_cache(1_024)
def _status_field(status: int) -> bytes:
    return field(":status", str(int(status)))


@lru_cache(1)
def _date_field(date: str) -> bytes:
    return field("date", date)
