"""Clients of the sandbox whose every frame or byte a test writes by hand, in clear text."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import NamedTuple
from urllib.parse import urlsplit

import hpack
from hyperframe.frame import DataFrame, HeadersFrame, SettingsFrame

from tests.providers.http.h2.raw_peer import Link
from tocsin.http2.frames import PREFACE
from tocsin.sandbox import Sandbox

STATS = "/_sandbox/stats"
WEBHOOK = "/webhook/ada"
EVENT = b'{"type":"t"}'
_EVENT_FIELDS = (("webhook-id", "m1"), ("webhook-timestamp", "1"), ("webhook-signature", "v1,x"))


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes


async def connect(sandbox: Sandbox) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    address = urlsplit(sandbox.http_url)
    return await asyncio.open_connection(address.hostname, address.port)


@contextlib.asynccontextmanager
async def linked(sandbox: Sandbox, settings: Mapping[int, int] | None = None) -> AsyncIterator[Link]:
    """Open a connection of HTTP/2 that has sent its preface and its settings."""
    reader, writer = await connect(sandbox)
    link = Link(reader, writer)
    reading = asyncio.create_task(link.run(preface=b""))
    link.send(PREFACE, SettingsFrame(0, settings=dict(settings or {})), SettingsFrame(0, flags=["ACK"]))
    try:
        yield link
    finally:
        link.close()
        await reading


def head(link: Link, stream_id: int, *fields: tuple[str, str], path: str = WEBHOOK) -> HeadersFrame:
    """Begin a POST request whose body is still to come."""
    return link.headers(stream_id, *request_fields("POST", path), *fields)


def event_head(link: Link, stream_id: int, *fields: tuple[str, str]) -> HeadersFrame:
    """Begin a request that the stand-in for webhooks takes."""
    return head(link, stream_id, *_EVENT_FIELDS, *fields)


def event(link: Link, stream_id: int) -> list[HeadersFrame | DataFrame]:
    """Build a whole request that the stand-in for webhooks takes."""
    return [event_head(link, stream_id), DataFrame(stream_id, EVENT, flags=["END_STREAM"])]


def get(link: Link, stream_id: int, path: str = STATS) -> HeadersFrame:
    """Build a whole GET request."""
    return link.headers(stream_id, *request_fields("GET", path), end=True)


def request_fields(method: str, path: str) -> tuple[tuple[str, str], ...]:
    return ((":method", method), (":scheme", "http"), (":authority", "localhost"), (":path", path))


async def answer(link: Link, stream_id: int) -> Answer:
    """Wait for the whole answer on a stream."""
    await link.stream_end(stream_id)
    block = next(
        frame.data
        for frame in link.frames
        if isinstance(frame, HeadersFrame) and frame.stream_id == stream_id
    )
    fields = {str(name): str(value) for name, value in hpack.Decoder().decode(block)}
    return Answer(int(fields.pop(":status")), fields, link.body(stream_id))
