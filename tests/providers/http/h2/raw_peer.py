"""A peer of HTTP/2 whose every frame a test writes by hand, in clear text."""

import asyncio
import contextlib
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self, TypeVar

import hpack
from hyperframe.frame import (
    DataFrame,
    Frame,
    HeadersFrame,
    RstStreamFrame,
    SettingsFrame,
)

from tests.providers.wire import LOOPBACK
from tocsin.http2.frames import PREFACE
from tocsin.providers.http.h2.client import Http2Client
from tocsin.providers.http.h2.exchange import Exchange
from tocsin.providers.settings import HttpProviderSettings

F = TypeVar("F", bound=Frame)

_HEAD_BYTES = 9


class Link:
    """One connection to the peer that is tested."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._news = asyncio.Condition()
        self._encoder = hpack.Encoder()
        self._encoder.header_table_size = 0
        self.frames: list[Frame] = []
        self.ended = False

    async def run(self, *, preface: bytes = PREFACE) -> None:
        """Read until the peer leaves; a client begins with a preface, a server with none."""
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            assert await self._reader.readexactly(len(preface)) == preface
            while True:
                frame, length = Frame.parse_frame_header(
                    memoryview(await self._reader.readexactly(_HEAD_BYTES))
                )
                frame.parse_body(memoryview(await self._reader.readexactly(length)))
                async with self._news:
                    self.frames.append(frame)
                    self._news.notify_all()
        async with self._news:
            self.ended = True
            self._news.notify_all()

    async def frame(self, kind: type[F], number: int = 1) -> F:
        """Wait for the frame of that kind and number that the peer sends."""
        async with asyncio.timeout(10), self._news:
            while True:
                found = [frame for frame in self.frames if isinstance(frame, kind)]
                if len(found) >= number:
                    return found[number - 1]
                assert not self.ended, f"the peer left without {kind.__name__}: {self.frames}"
                await self._news.wait()

    async def end(self) -> None:
        """Wait until the peer has closed the connection."""
        async with asyncio.timeout(10), self._news:
            await self._news.wait_for(lambda: self.ended)

    async def request(self, number: int = 1) -> int:
        """Wait for the whole request of that number and return its stream."""
        stream_id = (await self.frame(HeadersFrame, number)).stream_id
        await self.stream_end(stream_id)
        return stream_id

    async def stream_end(self, stream_id: int) -> None:
        """Wait for the end of what the peer sends on a stream."""
        async with asyncio.timeout(10), self._news:
            await self._news.wait_for(
                lambda: any(
                    "END_STREAM" in frame.flags and frame.stream_id == stream_id for frame in self.frames
                )
            )

    async def reset_code(self, stream_id: int) -> int:
        async with asyncio.timeout(10), self._news:
            while True:
                for frame in self.frames:
                    if isinstance(frame, RstStreamFrame) and frame.stream_id == stream_id:
                        return int(frame.error_code)
                await self._news.wait()

    def body(self, stream_id: int) -> bytes:
        return b"".join(
            frame.data
            for frame in self.frames
            if isinstance(frame, DataFrame) and frame.stream_id == stream_id
        )

    def send(self, *frames: Frame | bytes) -> None:
        self._writer.write(b"".join(each if isinstance(each, bytes) else each.serialize() for each in frames))

    def block(self, *fields: tuple[str, str]) -> bytes:
        return self._encoder.encode(fields)

    def headers(self, stream_id: int, *fields: tuple[str, str], end: bool = False) -> HeadersFrame:
        flags = ["END_HEADERS", "END_STREAM"] if end else ["END_HEADERS"]
        return HeadersFrame(stream_id, self.block(*fields), flags=flags)

    def answer(self, stream_id: int, body: bytes = b"{}", status: str = "200") -> None:
        self.send(
            self.headers(stream_id, (":status", status)), DataFrame(stream_id, body, flags=["END_STREAM"])
        )

    def close(self) -> None:
        self._writer.close()


class RawPeer:
    """Listens, and says SETTINGS first on each connection, unless there are to be none."""

    def __init__(self, settings: Mapping[int, int] | None = None, *, silent: bool = False) -> None:
        self.settings = dict(settings or {})
        self.silent = silent
        self.links: list[Link] = []
        self._news = asyncio.Condition()
        self._server: asyncio.Server | None = None
        self._clients: list[Http2Client] = []

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, LOOPBACK, 0)
        self.url = f"http://{LOOPBACK}:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for client in self._clients:
            await client.aclose()
        if self._server is not None:
            self._server.close()
        for link in self.links:
            link.close()
            await link.end()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link = Link(reader, writer)
        if not self.silent:
            link.send(SettingsFrame(0, settings=self.settings), SettingsFrame(0, flags=["ACK"]))
        async with self._news:
            self.links.append(link)
            self._news.notify_all()
        await link.run()

    async def link(self, number: int = 1) -> Link:
        """Wait for the connection of that number."""
        async with asyncio.timeout(10), self._news:
            await self._news.wait_for(lambda: len(self.links) >= number)
        return self.links[number - 1]

    def client(self, *, concurrency: int = 100, **settings: Any) -> Http2Client:
        """Give a client that is closed with the peer."""
        made = Http2Client(self.url, HttpProviderSettings(max_concurrency=concurrency, **settings))
        self._clients.append(made)
        return made


async def warmed(peer: RawPeer, **settings: Any) -> tuple[Http2Client, Link]:
    """Give a client that has a connection, after one request."""
    client = peer.client(**settings)
    asked = post(client)
    link = await peer.link()
    link.answer(await link.request())
    await asked
    return client, link


async def half_answered(peer: RawPeer) -> tuple[Http2Client, Link, Exchange]:
    """Give a client whose request on stream 1 has no answer, while that on stream 3 has."""
    client = peer.client()
    waiting, answered = post(client, b"1"), post(client, b"2")
    link = await peer.link()
    await link.request(2)
    link.answer(3)
    assert (await answered).status == 200
    return client, link, waiting


def post(client: Http2Client, body: bytes = b'{"a": 1}', path: str = "/send") -> Exchange:
    return client.post(client.head({"content-type": "application/json"}), client.path(path), body)
