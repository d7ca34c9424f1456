"""What live inboxes cost: `python -m bench.gateway.inbox --sessions 10000 --rate 1000`.

So many sessions are opened in one process of the gateway, each of another person, half of them WebSockets.
Then items are stored at a rate, as a settlement stores them: those of ten milliseconds in one transaction.
An event takes from before that transaction to the client.
"""

import argparse
import asyncio
import itertools
import random
import resource
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import asyncpg
import psutil
import uvloop

from bench.broker import free_port
from bench.gateway.__main__ import AT_ONCE, cpu, listens
from bench.gateway.client import SECRET, Client
from bench.process import running
from bench.progress import tell
from bench.tocsin_server import SCHEMA, database
from tocsin.domain.ids import uuid7
from tocsin.store.inbox.notices import Notice, notify
from tocsin.store.pool import connection_settings

TICK = 0.01
STORE = """
insert into inbox_items (id, user_id, delivery_id, type, category, title, body, link, data, created_at)
select
    id, user_id, id, 'announcement', 'bench', 'A new report', 'Your figures are there.', '/reports', '{}',
    now()
from unnest($1::uuid[], $2::text[]) as given (id, user_id)
"""


async def measure(sessions: int, rate: int, seconds: float) -> dict[str, Any]:
    """Open the sessions, then store items at the rate."""
    with tempfile.TemporaryDirectory() as folder:
        workdir = Path(folder)
        async with database(workdir) as (url, _):
            port = free_port()
            environment = {
                "TOCSIN_DATABASE_URL": url,
                "TOCSIN_AUTH__JWT_SECRET": SECRET,
                "TOCSIN_GATEWAY__PORT": str(port),
                "TOCSIN_GATEWAY__MAX_SESSIONS": str(sessions),
            }
            argv = [sys.executable, "-m", "tocsin.cli", "gateway"]
            async with running(argv, environment, workdir / "gateway.log") as process:
                gateway = psutil.Process(process.pid)
                await listens(port)
                empty = gateway.memory_info().rss
                clients = await _connected(port, sessions)
                tell(f"{sessions:,} sessions")
                before = cpu(gateway)
                latencies, took = await _stored(url, clients, rate, seconds)
                busy = cpu(gateway) - before
                resident = gateway.memory_info().rss
    cuts = statistics.quantiles(latencies, n=1_000)
    return {
        "sessions": sessions,
        "events_per_second": round(len(latencies) / took),
        "rss_empty_mb": round(empty / 1e6, 1),
        "rss_mb": round(resident / 1e6, 1),
        "event_ms_p50": round(1_000 * cuts[499], 1),
        "event_ms_p99": round(1_000 * cuts[989], 1),
        "event_ms_max": round(1_000 * max(latencies), 1),
        "gateway_cpu_percent": round(100 * busy / took, 1),
    }


async def _connected(port: int, sessions: int) -> list[Client]:
    loop, gate = asyncio.get_running_loop(), asyncio.Semaphore(AT_ONCE)
    kinds = itertools.cycle(["inbox", "inbox websocket"])

    async def connect(number: int, kind: str) -> Client:
        async with gate:
            _, client = await loop.create_connection(lambda: Client(number, kind), "127.0.0.1", port)
            await client.live
            return client

    return await asyncio.gather(*(connect(number, next(kinds)) for number in range(sessions)))


async def _stored(url: str, clients: list[Client], rate: int, seconds: float) -> tuple[list[float], float]:
    """Store items for people by chance; return how long each took to arrive, and all of them together."""
    connection = await asyncpg.connect(url, server_settings=connection_settings(SCHEMA))
    sent: defaultdict[int, list[float]] = defaultdict(list)
    began, stored = time.monotonic(), 0
    while (now := time.monotonic()) < began + seconds:
        due = int((now - began) * rate) - stored
        if due > 0:
            chosen = random.choices(clients, k=due)
            ids = [uuid7() for _ in chosen]
            users = [f"u{client.number}" for client in chosen]
            for client in chosen:
                sent[client.number].append(now)
            async with connection.transaction():
                await connection.execute(STORE, ids, users)
                await notify(
                    connection,
                    [Notice("created", user, item) for user, item in zip(users, ids, strict=True)],
                )
            stored += due
        await asyncio.sleep(TICK)
    took = time.monotonic() - began
    async with asyncio.timeout(30):
        while sum(len(client.seen_at) for client in clients) < stored:  # noqa: ASYNC110 - as in bench.gateway
            await asyncio.sleep(0.01)
    await connection.close()
    latencies = [
        seen - at for client in clients for at, seen in zip(sent[client.number], client.seen_at, strict=True)
    ]
    return latencies, took


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.gateway.inbox", description=__doc__)
    parser.add_argument("--sessions", type=int, default=10_000)
    parser.add_argument("--rate", type=int, default=1_000, help="items a second")
    parser.add_argument("--seconds", type=float, default=20.0, help="how long they are stored")
    given = parser.parse_args()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    for name, value in uvloop.run(measure(given.sessions, given.rate, given.seconds)).items():
        print(f"{name:28} {value:,}")


if __name__ == "__main__":
    main()
