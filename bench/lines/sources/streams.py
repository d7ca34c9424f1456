"""From a stream of intents to two streams of routes: what it takes, and whether the lag shown is true."""

import asyncio
import contextlib
import re
import sys
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import asyncpg
from pyreqwest.client import ClientBuilder
from redis.asyncio import Redis

from bench.broker import Broker, drained, free_port, redis_server
from bench.contract import Arena, Batch, Goal, Reading
from bench.goals import NONE
from bench.meter import cpu_seconds
from bench.process import ROOT, conversing, running
from bench.progress import tell
from bench.settled import is_waiting
from bench.tocsin_server import SCHEMA, database
from tocsin.store.pool import connection_settings
from tocsin.wire.streams.intents import DEFAULT_STREAM

GOAL = 5_000
RATE = 6_000
"""Intents appended a second: more than the goal, so that the goal is no upper bound."""
SECONDS = 20
WARM_UP = 10_000
ROUTES = 2
GALAXY = ROOT / "examples" / "galaxy"
SAMPLE_SECONDS = 0.5
READY_SECONDS = 30.0

COUNTS = "select count(*) filter (where state = 'sent') as sent, count(*) as all from deliveries"
OFFSET = "select entry_id from stream_offsets where name = 'galaxy'"
LAG = re.compile(rb"^tocsin_stream_lag_seconds\{[^}]*\} (\S+)$", re.MULTILINE)


class Streams:
    name = "streams"
    title = "From a stream of intents to published routes"

    async def measure(self, arena: Arena) -> Sequence[Reading]:
        async with contextlib.AsyncExitStack() as stack:
            broker = await stack.enter_async_context(redis_server(arena.workdir))
            url, postmaster = await stack.enter_async_context(database(arena.workdir))
            directory = await stack.enter_async_context(_directory())
            port = free_port()
            environment = _environment(url, broker, directory)
            processes = [
                await stack.enter_async_context(
                    running(
                        [sys.executable, "-m", "tocsin.cli", command],
                        {**environment, **more},
                        arena.workdir / f"tocsin_{command}.log",
                    )
                )
                for command, more in (
                    ("relay", {"TOCSIN_METRICS__PORT": str(port)}),
                    ("worker", {}),
                )
            ]
            producer = await stack.enter_async_context(
                conversing(
                    [sys.executable, "-m", "bench.programs.stream_producer"],
                    {"BENCH_REDIS": broker.url, "BENCH_RATE": str(RATE)},
                    arena.workdir / "stream_producer.log",
                )
            )
            books = await asyncpg.connect(url, server_settings=connection_settings(SCHEMA))
            stack.push_async_callback(books.close)
            redis = await stack.enter_async_context(Redis.from_url(broker.url))
            relay, worker = (each.pid for each in processes)
            parts = {"Redis": [broker.pid], "Postgres": [postmaster], "relay": [relay], "worker": [worker]}
            run = _Run(redis, books)
            await producer.ask(Batch(serial=0, count=WARM_UP))
            await run.settled()
            tell(f"streams    {RATE:,} intents a second for {SECONDS} s")
            before, began = _cpu(parts), time.perf_counter()
            count = RATE * SECONDS
            watching = asyncio.create_task(run.watch(f"http://127.0.0.1:{port}/metrics"))
            await producer.ask(Batch(serial=1, count=count))
            appended = time.perf_counter() - began
            await run.settled()
            seconds = time.perf_counter() - began
            micros = {
                name: 1e6 * (cpu - before[name]) / (count * ROUTES) for name, cpu in _cpu(parts).items()
            }
            watching.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watching
            counts = await books.fetchrow(COUNTS)
        return (
            Reading(
                "intents published",
                count / seconds,
                "/s",
                Goal(GOAL, least=True),
                note=f"{count:,} appended at {count / appended:,.0f} a second, {ROUTES} routes each; the "
                f"last was published {seconds - appended:.1f} s after it was appended; one relay, one worker",
            ),
            Reading(
                "CPU a route, Postgres and Redis included",
                sum(micros.values()),
                "µs",
                note=", ".join(f"{name} {each:.0f}" for name, each in micros.items()),
            ),
            Reading("routes lost or left", ROUTES * (count + WARM_UP) - counts["sent"], "routes", NONE),
            Reading(
                "lag shown, furthest from the truth",
                max(run.errors, default=float("nan")),
                "s",
                Goal(1, least=False),
                note=f"of {len(run.errors)} looks; the longest lag was {max(run.lags, default=0):.1f} s",
            ),
        )


class _Run:
    def __init__(self, redis: Any, books: asyncpg.Connection) -> None:
        self._redis = redis
        self._books = books
        self._lock = asyncio.Lock()
        self.errors: list[float] = []
        self.lags: list[float] = []

    async def settled(self) -> None:
        """Wait until every entry was read and nothing waits."""
        await drained(self._left)

    async def _left(self) -> bool:
        async with self._lock:
            is_behind = await self._oldest_age() is not None
            return is_behind or await is_waiting(self._books)

    async def _oldest_age(self) -> float | None:
        """Return how long ago the oldest entry that was not accepted yet was appended."""
        offset = await self._books.fetchval(OFFSET) or "0-0"
        found = await self._redis.xrange(DEFAULT_STREAM, min=f"({offset}", count=1)
        return time.time() - int(found[0][0].split(b"-")[0]) / 1_000 if found else None

    async def watch(self, url: str) -> None:
        """Compare the lag that the relay shows with that of the stream, again and again."""
        async with ClientBuilder().build() as client:
            while True:
                await asyncio.sleep(SAMPLE_SECONDS)
                async with self._lock:
                    earlier = await self._oldest_age() or 0.0
                answer = bytes(await (await client.get(url).build().send()).bytes())
                async with self._lock:
                    later = await self._oldest_age() or 0.0
                shown = LAG.search(answer)
                if shown is None:
                    raise RuntimeError("the relay shows no lag")
                lag = float(shown[1])
                low, high = min(earlier, later), max(earlier, later)
                self.errors.append(max(low - lag, lag - high, 0.0))
                self.lags.append(high)


def _cpu(parts: Mapping[str, Sequence[int]]) -> dict[str, float]:
    return {name: cpu_seconds(roots) for name, roots in parts.items()}


def _environment(url: str, broker: Broker, directory: str) -> Mapping[str, str]:
    return {
        "TOCSIN_DATABASE_URL": url,
        "TOCSIN_LOG__LEVEL": "warning",
        "TOCSIN_CATALOG": str(GALAXY / "catalog"),
        "TOCSIN_QUIET_HOURS__ENABLED": "false",
        "TOCSIN_REDIS__URL": broker.url,
        "TOCSIN_STREAMS__GALAXY__STREAM": DEFAULT_STREAM,
        "TOCSIN_DIRECTORY__KIND": "http",
        "TOCSIN_DIRECTORY__URL": directory,
        "TOCSIN_GATEWAY_STREAM__ENABLED": "true",
        "TOCSIN_GATEWAY_STREAM__TABLES": str(GALAXY / "tables"),
        "TOCSIN_MAIL_STREAM__ENABLED": "true",
    }


@contextlib.asynccontextmanager
async def _directory() -> AsyncIterator[str]:
    """Run a service that knows everybody."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while head := await reader.readuntil(b"\r\n\r\n"):
                user_id = head.split()[1].rpartition(b"/")[2]
                body = b'{"email":"' + user_id + b'@example.com","preferred_language":"en"}'
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    try:
        yield f"http://{host}:{port}"
    finally:
        server.close()
