"""Which part of Tocsin a message costs what, and how long it takes at shares of the highest rate."""

import asyncio
import sys
import time
from collections.abc import Sequence

import asyncpg

from bench.contract import Arena, Batch, Reading
from bench.goals import (
    API_CPU_MICROS,
    CPU_MICROS,
    POSTGRES_CPU_MICROS,
    PRODUCER_CPU_MICROS,
    WORKERS_CPU_MICROS,
)
from bench.meter import cpu_seconds
from bench.process import Conversation, conversing
from bench.settled import all_settled, check_sent
from bench.tocsin_server import SCHEMA, Server, tocsin_server
from tocsin.store.pool import connection_settings

WORKERS, CONCURRENCY = 2, 1_000
WARM_UP = 5_000
MESSAGES = 30_000
LOADS = (0.05, 0.7)
SECONDS = 10.0
STEP_SECONDS = 0.02
STEPS = 10_000
GOALS = {
    "producer": PRODUCER_CPU_MICROS,
    "API": API_CPU_MICROS,
    "workers": WORKERS_CPU_MICROS,
    "Postgres": POSTGRES_CPU_MICROS,
}
LATENCY = """
select percentile_cont(array[0.5, 0.99]) within group (
    order by extract(epoch from deliveries.settled_at - notifications.accepted_at)
)
from deliveries join notifications on notifications.id = deliveries.notification_id
where notifications.idempotency_key like $1
"""


class Parts:
    name = "parts"
    title = "What each part costs"

    async def measure(self, arena: Arena) -> Sequence[Reading]:
        """Deliver a batch at the highest rate, and then messages at shares of it."""
        async with tocsin_server(arena, workers=WORKERS, concurrency=CONCURRENCY) as server:
            environment = {"BENCH_API": server.api_url, "BENCH_KEY": server.key}
            argv = [sys.executable, "-m", "bench.programs.tocsin_producer"]
            async with conversing(argv, environment, arena.workdir / "producer.log") as producer:
                books = await asyncpg.connect(
                    server.database_url, server_settings=connection_settings(SCHEMA)
                )
                count = min(MESSAGES, arena.numbers)
                await producer.ask(Batch(serial=0, count=min(WARM_UP, arena.numbers)))
                await all_settled(books)
                before, began = _spent(server, producer), time.perf_counter()
                await producer.ask(Batch(serial=1, count=count))
                await all_settled(books)
                rate = count / (time.perf_counter() - began)
                after = _spent(server, producer)
                costs = {name: 1e6 * (after[name] - spent) / count for name, spent in before.items()}
                readings = [
                    Reading(
                        "messages at the highest rate", rate, "/s", note=f"{WORKERS} workers of {CONCURRENCY}"
                    ),
                    *(
                        Reading(f"CPU a message: {name}", cost, "µs", GOALS[name])
                        for name, cost in costs.items()
                    ),
                    Reading("CPU a message: all of them", sum(costs.values()), "µs", CPU_MICROS),
                ]
                for serial, load in enumerate(LOADS, 2):
                    await _send(producer, serial * STEPS, load * rate)
                    await all_settled(books)
                    median, slowest = await books.fetchval(LATENCY, f"{serial}____-%")
                    name = f"accepted to sent at {100 * load:.0f} % of it"
                    readings += [
                        Reading(f"{name}, median", 1e3 * median, "ms"),
                        Reading(f"{name}, p99", 1e3 * slowest, "ms"),
                    ]
                await check_sent(books)
                await books.close()
        return readings


async def _send(producer: Conversation, serial: int, rate: float) -> None:
    """Send messages at a rate, a request every so often."""
    began = time.perf_counter()
    for step in range(round(SECONDS / STEP_SECONDS)):
        await producer.ask(Batch(serial=serial + step, count=round(rate * STEP_SECONDS)))
        await asyncio.sleep(max(0.0, began + (step + 1) * STEP_SECONDS - time.perf_counter()))


def _spent(server: Server, producer: Conversation) -> dict[str, float]:
    parts = {
        "producer": (producer.pid,),
        "API": (server.api_pid,),
        "workers": server.worker_pids,
        "Postgres": (server.postmaster_pid,),
    }
    return {name: cpu_seconds(pids) for name, pids in parts.items()}
