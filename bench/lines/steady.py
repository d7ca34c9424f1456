"""Whether memory, connections, tables and latency stay as they are under a load that goes on."""

import asyncio
import statistics
import time
from collections.abc import Callable, Sequence

import asyncpg
import msgspec

from bench.contract import Arena, Chart, Curve, Goal, Reading
from bench.meter import memory_bytes
from bench.paced_server import COLLECT_SECONDS, CONCURRENCY, WORKERS, PacedServer, paced_server
from bench.process import ProgramFailedError
from bench.progress import tell
from bench.tocsin_server import SCHEMA, Server
from tocsin.store.pool import connection_settings

WARM_UP = 5_000
MESSAGES = 20_000
SHARE = 0.5
SLICES = 12
SHORT_SECONDS = 600.0
"""In less than this autovacuum, which looks once a minute, comes too rarely to compare two halves."""

MEMORY = Goal(1.1, least=False)
CONNECTIONS = Goal(1.1, least=False)
BYTES_A_ROW = Goal(1.1, least=False)
DEAD_ROWS = Goal(1.5, least=False)
MEDIAN = Goal(1.3, least=False)
P99 = Goal(1.5, least=False)

# Statistics of the tables are those that autovacuum itself goes by.
TABLES = """
select
    (select count(*) from pg_stat_activity where application_name = 'tocsin' and pid <> pg_backend_pid())
        as connections,
    sum(pg_table_size(relid))::float8 as table_bytes,
    sum(pg_indexes_size(relid))::float8 as index_bytes,
    sum(n_live_tup) filter (where relname = 'deliveries')::bigint as rows,
    sum(n_dead_tup) filter (where relname = 'deliveries')::bigint as dead_rows
from pg_stat_user_tables
where schemaname = current_schema() and relname in ('notifications', 'deliveries')
"""
# As in the line `latency`, by slices of the schedule.
LATENCY = """
select
    count(*) as messages,
    count(*) filter (where micros is null) as unsent,
    percentile_cont(array[0.5, 0.99]) within group (order by micros / 1e3) as millis
from (
    select
        scheduled.at,
        substring(deliveries.provider_message_id from '0:([0-9]+)%')::bigint - scheduled.at as micros
    from notifications
    join deliveries on deliveries.notification_id = notifications.id
    cross join lateral (
        select split_part(notifications.idempotency_key, '-', 3)::bigint as at
    ) as scheduled
    where notifications.idempotency_key like $1
) as each
group by least((at - $2) / $3, $4 - 1)
order by least((at - $2) / $3, $4 - 1)
"""


class Sample(msgspec.Struct, frozen=True):
    """What the processes and the tables took at one moment."""

    api_bytes: float
    worker_bytes: float
    """Of the larger worker."""
    connections: int
    table_bytes: float
    index_bytes: float
    rows: int
    dead_rows: int


class Slice(msgspec.Struct, frozen=True):
    """The latencies of one part of the schedule, and a sample from its end."""

    minutes: float
    median: float
    p99: float
    sample: Sample


class Steady:
    name = "steady"
    title = "Steady load"

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    async def measure(self, arena: Arena) -> Sequence[Reading | Chart]:
        """Send at half of the highest rate, and compare the second half of the time with the first."""
        async with paced_server(arena) as bench:
            await bench.highest_rate(min(WARM_UP, arena.numbers))
            rate = SHARE * await bench.highest_rate(min(MESSAGES, arena.numbers))
            slices = await _slices(bench, rate, self._seconds)
        return [*_readings(rate, self._seconds, slices), *_charts(slices)]


async def _slices(bench: PacedServer, rate: float, seconds: float) -> list[Slice]:
    length = seconds / SLICES
    # Of its own: whoever sends looks by the other one whether all is settled.
    books = await asyncpg.connect(bench.server.database_url, server_settings=connection_settings(SCHEMA))
    began = time.time()
    sending = asyncio.create_task(bench.send(rate, seconds, collect_seconds=COLLECT_SECONDS))
    samples = []
    try:
        for number in range(1, SLICES + 1):
            await asyncio.sleep(max(0.0, began + number * length - time.time()))
            samples.append(await _sample(bench.server, books))
            tell(f"steady     {number} of {SLICES}: {samples[-1]}")
        keys = await sending
    finally:
        sending.cancel()
        await books.close()
    found = await bench.books.fetch(LATENCY, keys, round(1e6 * began), round(1e6 * length), SLICES)
    if unsent := sum(each["unsent"] for each in found):
        raise ProgramFailedError(f"{unsent} messages of the schedule were not sent")
    return [
        Slice(number * length / 60, each["millis"][0], each["millis"][1], sample)
        for number, (each, sample) in enumerate(zip(found, samples, strict=True), 1)
    ]


async def _sample(server: Server, books: asyncpg.Connection) -> Sample:
    # Off the event loop: reading many maps takes milliseconds.
    api, *workers = [
        await asyncio.to_thread(memory_bytes, (pid,)) for pid in (server.api_pid, *server.worker_pids)
    ]
    return Sample(api, max(workers), *await books.fetchrow(TABLES))


def _readings(rate: float, seconds: float, slices: Sequence[Slice]) -> list[Reading]:
    last = slices[-1].sample
    dead_rows = DEAD_ROWS if seconds >= SHORT_SECONDS else None
    return [
        Reading(
            "rate", rate, "/s",
            note=f"{100 * SHARE:.0f} % of the highest, for {seconds:,.0f} s, {WORKERS} workers of "
            f"{CONCURRENCY}; {last.rows:,} deliveries at the end",
        ),
        *compared(slices, "memory of the API", "MB", MEMORY, lambda each: each.sample.api_bytes / 1e6),
        *compared(slices, "memory of a worker", "MB", MEMORY, lambda each: each.sample.worker_bytes / 1e6),
        *compared(slices, "connections", "", CONNECTIONS, lambda each: each.sample.connections),
        *compared(slices, "tables", "bytes a row", BYTES_A_ROW, lambda each: _a_row(each, "table_bytes")),
        *compared(slices, "indexes", "bytes a row", BYTES_A_ROW, lambda each: _a_row(each, "index_bytes")),
        *compared(slices, "dead rows of deliveries", "", dead_rows, lambda each: each.sample.dead_rows),
        *compared(slices, "to the provider, median", "ms", MEDIAN, lambda each: each.median),
        *compared(slices, "to the provider, p99", "ms", P99, lambda each: each.p99),
    ]  # fmt: skip


def compared(
    slices: Sequence[Slice], name: str, unit: str, goal: Goal | None, figure: Callable[[Slice], float]
) -> tuple[Reading, Reading]:
    """Return the figure of the second half, and how it compares with the first: the medians of the slices."""
    values = [figure(each) for each in slices]
    half = len(values) // 2
    first, second = statistics.median(values[:half]), statistics.median(values[half:])
    note = f"{first:,.1f} in the first half; from {min(values):,.1f} to {max(values):,.1f} in all"
    return (
        Reading(name, second, unit, note=note),
        Reading(f"{name}: second half against the first", second / max(first, 1e-9), "times", goal),
    )


def _a_row(each: Slice, name: str) -> float:
    return float(getattr(each.sample, name) / max(each.sample.rows, 1))


def _charts(slices: Sequence[Slice]) -> tuple[Chart, Chart]:
    return (
        _chart(
            "steady", "from the scheduled arrival to the provider", "ms", slices,
            {"median": lambda each: each.median, "p99": lambda each: each.p99},
        ),
        _chart(
            "steady_memory", "memory", "MB", slices,
            {
                "API": lambda each: each.sample.api_bytes / 1e6,
                "larger worker": lambda each: each.sample.worker_bytes / 1e6,
            },
        ),
    )  # fmt: skip


def _chart(
    name: str,
    title: str,
    upwards: str,
    slices: Sequence[Slice],
    curves: dict[str, Callable[[Slice], float]],
) -> Chart:
    return Chart(
        name=name,
        title=f"{title}, under a steady load",
        across="minutes",
        upwards=upwards,
        curves=tuple(
            Curve(label, tuple((each.minutes, figure(each)) for each in slices))
            for label, figure in curves.items()
        ),
    )
