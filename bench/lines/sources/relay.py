"""Relaying an application's outbox: how many events a second, in how much memory, and how soon when idle."""

import asyncio
import contextlib
import statistics
import sys
import time
from collections.abc import AsyncIterator, Sequence
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import psutil

from bench.contract import Arena, Goal, Reading
from bench.goals import NONE
from bench.process import running
from bench.progress import tell
from bench.tocsin_server import SCHEMA, database
from tocsin.ingress.outbox.install import install
from tocsin.store.pool import connection_settings

EVENTS = 200_000
WARM_UP = 20_000
COMMITS = 50
SAMPLE_SECONDS = 0.1
MEGABYTE = 1024 * 1024

WRITE = """
insert into tocsin_outbox (intent)
select jsonb_build_object(
    'type', 'new_customer',
    'audience', jsonb_build_object('users', jsonb_build_array('user-' || number)),
    'payload', jsonb_build_object('customer_name', 'Ali Veli', 'customer_id', number::text)
)
from generate_series(1, $1::integer) as number
"""
ANNOUNCE = "select pg_notify('public.tocsin_outbox', '')"
ANY_WAITING = "select exists (select from tocsin_outbox where published_at is null)"
PUBLISH = """
select tocsin_publish(
    '{"type": "new_customer", "audience": {"users": ["ada"]}, "payload": {"customer_name": "Ali Veli"}}'
)
"""
PENDING = "select count(distinct notification_id) from deliveries where state = 'pending'"
IS_ACCEPTED = "select exists (select from notifications where producer = 'shop' and idempotency_key = $1)"


class Relaying:
    name = "relay"
    title = "Relaying an outbox"

    async def measure(self, arena: Arena) -> Sequence[Reading]:
        async with (
            database(arena.workdir) as (url, _),
            application(url) as (shop_url, shop),
            running(
                [sys.executable, "-m", "tocsin.cli", "relay"],
                {
                    "TOCSIN_DATABASE_URL": url,
                    "TOCSIN_LOG__LEVEL": "warning",
                    # With a provider every event becomes a delivery that waits.
                    "TOCSIN_FCM__CREDENTIALS_FILE": str(arena.credentials_file),
                    "TOCSIN_OUTBOXES__SHOP__URL": shop_url,
                },
                arena.workdir / "tocsin_relay.log",
            ) as process,
        ):
            books = await asyncpg.connect(url, server_settings=connection_settings(SCHEMA))
            relay = psutil.Process(process.pid)
            await _carried(shop, relay, WARM_UP)
            tell(f"relay      {EVENTS:,} events wait in one outbox")
            rate, sizes = await _carried(shop, relay, EVENTS)
            latencies = [await _latency(shop, books) for _ in range(COMMITS)]
            astray = abs(WARM_UP + EVENTS + COMMITS - await books.fetchval(PENDING))
            await books.close()
        return (*_readings(rate, sizes, latencies), Reading("lost or accepted twice", astray, "events", NONE))


def _readings(rate: float, sizes: Sequence[int], latencies: Sequence[float]) -> Sequence[Reading]:
    quarter = len(sizes) // 4
    growth = statistics.median(sizes[-quarter:]) - statistics.median(sizes[quarter : 2 * quarter])
    return (
        Reading(
            "events relayed",
            rate,
            "/s",
            Goal(8_000, least=True),
            note=f"{EVENTS:,} events, one relay process; both databases on one server with fsync on",
        ),
        Reading(
            "memory grown",
            growth / MEGABYTE,
            "MB",
            Goal(8, least=False),
            note=f"from the second quarter to the last; the highest was {max(sizes) / MEGABYTE:.0f} MB",
        ),
        Reading(
            "from commit to accepted when idle, median",
            statistics.median(latencies) * 1_000,
            "ms",
            Goal(50, least=False),
            note=f"of {COMMITS}; the longest was {max(latencies) * 1_000:.0f} ms",
        ),
    )


@contextlib.asynccontextmanager
async def application(url: str) -> AsyncIterator[tuple[str, asyncpg.Connection]]:
    """Give an application's database on the same server, with an outbox."""
    server = await asyncpg.connect(url)
    await server.execute("create database shop")
    await server.close()
    shop_url = urlunsplit(urlsplit(url)._replace(path="/shop"))
    shop = await asyncpg.connect(shop_url)
    try:
        await install(shop, "public", "tocsin_outbox")
        yield shop_url, shop
    finally:
        await shop.close()


async def _carried(
    shop: asyncpg.Connection, relay: psutil.Process, count: int
) -> tuple[float, Sequence[int]]:
    """Commit events all at once; give the rate at which they went and the memory seen meanwhile."""
    async with shop.transaction():
        await shop.execute(WRITE, count)
        await shop.execute(ANNOUNCE)
    began, sizes = time.perf_counter(), []
    while await shop.fetchval(ANY_WAITING):
        sizes.append(relay.memory_info().rss)
        await asyncio.sleep(SAMPLE_SECONDS)
    return count / (time.perf_counter() - began), sizes


async def _latency(shop: asyncpg.Connection, books: asyncpg.Connection) -> float:
    key = str(await shop.fetchval(PUBLISH))
    began = time.perf_counter()
    while not await books.fetchval(IS_ACCEPTED, key):
        pass
    seconds = time.perf_counter() - began
    # The relay is idle again once it has marked the row.
    while await shop.fetchval(ANY_WAITING):
        pass
    return seconds
