"""Wires to servers that can be brought to a halt between any two steps, and cut."""

import abc
import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Self
from urllib.parse import parse_qs, urlsplit, urlunsplit

_SOCKET = ".s.PGSQL.5432"
_LARGEST = 1 << 16


class Steps:
    """Counts what goes over some wires, in either direction, and halts all of them after so many steps."""

    def __init__(self) -> None:
        self._left: int | None = None
        self.halted = asyncio.Event()

    def halt_after(self, count: int) -> None:
        self._left = count

    def go_on(self) -> None:
        self._left = None
        self.halted.clear()

    async def take(self) -> None:
        """Take one step, or stand still until the wire is cut."""
        if self._left is None:
            return
        if self._left == 0:
            self.halted.set()
            await asyncio.Event().wait()
        self._left -= 1


class Wire(abc.ABC):
    """Stands between a process and a server."""

    def __init__(self, steps: Steps) -> None:
        self._steps = steps
        self._pumps: set[asyncio.Task[None]] = set()
        self._ends: set[asyncio.StreamWriter] = set()

    @property
    @abc.abstractmethod
    def url(self) -> str:
        """Where a process finds the server by this wire."""

    @abc.abstractmethod
    async def _listen(self) -> asyncio.Server: ...

    @abc.abstractmethod
    async def _reach(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]: ...

    @contextlib.asynccontextmanager
    async def strung(self) -> AsyncIterator[Self]:
        server = await self._listen()
        try:
            yield self
        finally:
            server.close()
            await self.cut()

    async def cut(self) -> None:
        """Let go of every connection; what had not gone over the wire never will."""
        pumps = list(self._pumps)
        for pump in pumps:
            pump.cancel()
        await asyncio.gather(*pumps, return_exceptions=True)
        for end in self._ends:
            end.transport.abort()
        self._ends.clear()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await self._reach()
        self._ends |= {writer, far_writer}
        for source, sink in ((reader, far_writer), (far_reader, writer)):
            pump = asyncio.create_task(self._pump(source, sink))
            self._pumps.add(pump)
            pump.add_done_callback(self._pumps.discard)

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await source.read(_LARGEST):
                await self._steps.take()
                sink.write(data)
                await sink.drain()
        sink.close()


class DatabaseWire(Wire):
    """Stands between a process and a Postgres server."""

    def __init__(self, url: str, folder: Path, steps: Steps) -> None:
        super().__init__(steps)
        self._there = urlsplit(url)
        self._folder = folder

    @property
    def url(self) -> str:
        login, at, _ = self._there.netloc.rpartition("@")
        return urlunsplit(self._there._replace(netloc=login + at, query=f"host={self._folder}"))

    async def _listen(self) -> asyncio.Server:
        return await asyncio.start_unix_server(self._connected, self._folder / _SOCKET)

    async def _reach(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if folder := parse_qs(self._there.query).get("host"):
            return await asyncio.open_unix_connection(f"{folder[0]}/{_SOCKET}")
        return await asyncio.open_connection(self._there.hostname, self._there.port or 5432)


class HttpWire(Wire):
    """Stands between a process and a server of HTTP."""

    def __init__(self, url: str, steps: Steps) -> None:
        super().__init__(steps)
        self._there = urlsplit(url)
        self._port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    async def _listen(self) -> asyncio.Server:
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self._port = server.sockets[0].getsockname()[1]
        return server

    async def _reach(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(self._there.hostname, self._there.port)
