"""Faults of the connection itself, which a well-behaved server cannot show: resets, refusals, silence."""

import asyncio
import contextlib
import socket
import struct
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import NamedTuple, Self

LOOPBACK = "127.0.0.1"
_CHUNK = 65_536
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


class Address(NamedTuple):
    host: str
    port: int


class Proxy:
    """Carries bytes between a provider and its peer, TLS and all, until told to break something."""

    def __init__(self, peer: Address) -> None:
        self._peer = peer
        self._port = 0
        self._server: asyncio.Server | None = None
        self._links: set[_Link] = set()
        self._bytes_left: int | None = None
        self._stalled = False
        self._delay = 0.0
        self.resets = 0
        """How often connections were reset."""

    async def __aenter__(self) -> Self:
        await self.listen()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.refuse()
        self.reset()
        await asyncio.gather(*(link.ended.wait() for link in list(self._links)))

    @property
    def url(self) -> str:
        """Where the proxy listens, in the form of a base URL; one who speaks no HTTP takes host and port."""
        return f"https://{LOOPBACK}:{self._port}"

    @property
    def open(self) -> int:
        """How many connections a provider holds open."""
        return len(self._links)

    async def listen(self) -> None:
        """Take connections, again at the same port if it was left."""
        self._server = await asyncio.start_server(self._carry, LOOPBACK, self._port)
        self._port = self._server.sockets[0].getsockname()[1]

    def refuse(self) -> None:
        """Take no more connections; those that are open stay."""
        if self._server is not None:
            self._server.close()
            self._server = None

    def stall(self) -> None:
        """Take connections from now on, and let nothing through."""
        self._stalled = True

    def delay(self, seconds: float) -> None:
        """Pass on what the peer sends so much later from now on."""
        self._delay = seconds

    def reset(self) -> None:
        """Reset every connection."""
        self.resets += 1
        for link in list(self._links):
            link.reset()

    def reset_after(self, count: int) -> None:
        """Reset every connection once the peer has sent so many bytes more."""
        self._bytes_left = count

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link = _Link(writer)
        self._links.add(link)
        try:
            if self._stalled:
                await link.until_left(reader)
            else:
                await self._connect(link, reader, writer)
        finally:
            link.close()
            self._links.discard(link)

    async def _connect(
        self, link: "_Link", reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        try:
            from_peer, to_peer = await asyncio.open_connection(*self._peer)
        except OSError:
            link.reset()
            return
        link.writers.append(to_peer)
        pumps = [
            asyncio.create_task(_pump(reader, to_peer.write, to_peer)),
            asyncio.create_task(
                _pump(from_peer, lambda chunk: self._bring(chunk, writer), writer, self._wait)
            ),
        ]
        await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        for pump in pumps:
            pump.cancel()
        await asyncio.wait(pumps)

    async def _wait(self) -> None:
        await asyncio.sleep(self._delay)

    def _bring(self, chunk: bytes, writer: asyncio.StreamWriter) -> None:
        """Pass on what the peer sent, and no more than is left before a reset."""
        writer.write(chunk[: self._bytes_left])
        if self._bytes_left is not None:
            self._bytes_left = max(0, self._bytes_left - len(chunk))
            if not self._bytes_left:
                self._bytes_left = None
                self.reset()


class _Link:
    """One connection of a provider and the one that carries it on."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self.writers = [writer]
        self.ended = asyncio.Event()

    async def until_left(self, reader: asyncio.StreamReader) -> None:
        with contextlib.suppress(OSError):
            while await reader.read(_CHUNK):
                pass

    def reset(self) -> None:
        for writer in self.writers:
            with contextlib.suppress(OSError):
                writer.get_extra_info("socket").setsockopt(
                    socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE
                )
            writer.transport.abort()

    def close(self) -> None:
        for writer in self.writers:
            writer.close()
        self.ended.set()


async def _pump(
    reader: asyncio.StreamReader,
    pass_on: Callable[[bytes], None],
    writer: asyncio.StreamWriter,
    wait: Callable[[], Awaitable[None]] | None = None,
) -> None:
    with contextlib.suppress(OSError):
        while chunk := await reader.read(_CHUNK):
            if wait is not None:
                await wait()
            pass_on(chunk)
            await writer.drain()
