"""A running Tocsin with a producer as fast as it can and one that sends by a schedule."""

import contextlib
import sys
import time
from collections.abc import AsyncIterator

import asyncpg

from bench.contract import Arena, Batch
from bench.process import Conversation, conversing
from bench.programs.open_loop import Load
from bench.settled import all_settled
from bench.tocsin_server import SCHEMA, Server, tocsin_server
from tocsin.store.pool import connection_settings

WORKERS, CONCURRENCY = 2, 300
COLLECT_SECONDS = 0.01
"""What a producer of many messages collects into one request; it counts as latency."""


class PacedServer:
    """Sends at the highest rate, or by a schedule, and waits until all was sent."""

    def __init__(
        self,
        arena: Arena,
        server: Server,
        books: asyncpg.Connection,
        flood: Conversation,
        paced: Conversation,
    ) -> None:
        self.server = server
        self.books = books
        self._users = arena.numbers
        self._flood = flood
        self._paced = paced
        self._serial = 0
        self._sent = 0

    async def highest_rate(self, count: int) -> float:
        """Deliver so many as fast as they are taken."""
        self._serial += 1
        began = time.perf_counter()
        await self._flood.ask(Batch(serial=self._serial, count=count))
        await all_settled(self.books)
        return count / (time.perf_counter() - began)

    async def send(self, rate: float, seconds: float, *, collect_seconds: float) -> str:
        """Send by schedule and wait until all is sent; return the pattern of the idempotency keys."""
        self._serial += 1
        load = Load(
            serial=self._serial,
            rate=rate,
            seconds=seconds,
            collect_seconds=collect_seconds,
            first=self._sent,
            users=self._users,
        )
        self._sent += round(rate * seconds)
        await self._paced.ask(load)
        await all_settled(self.books)
        return f"{self._serial}-%"


@contextlib.asynccontextmanager
async def paced_server(arena: Arena) -> AsyncIterator[PacedServer]:
    """Run Tocsin, its two producers and a connection to its database."""
    async with contextlib.AsyncExitStack() as stack:
        server = await stack.enter_async_context(
            tocsin_server(arena, workers=WORKERS, concurrency=CONCURRENCY)
        )
        environment = {"BENCH_API": server.api_url, "BENCH_KEY": server.key}
        flood, paced = [
            await stack.enter_async_context(
                conversing(
                    [sys.executable, "-m", f"bench.programs.{program}"],
                    environment,
                    arena.workdir / f"{program}.log",
                )
            )
            for program in ("tocsin_producer", "open_loop")
        ]
        books = await asyncpg.connect(server.database_url, server_settings=connection_settings(SCHEMA))
        stack.push_async_callback(books.close)
        yield PacedServer(arena, server, books, flood, paced)
