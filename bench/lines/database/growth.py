"""What accepting, claiming and settling cost the database as its tables grow."""

import asyncio
import gc
import statistics
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from datetime import datetime, timedelta
from itertools import count

import asyncpg
import msgspec
import psutil

from bench.contract import Arena, Chart, Curve, Goal, Reading
from bench.progress import tell
from bench.retention.hot_path import BATCH, USERS, Cost, Hot
from bench.tocsin_server import database
from tocsin.engine.clock import utc_now
from tocsin.store.migrate import migrate
from tocsin.store.pool import LOOKUPS_ONLY, PoolSettings, connection_settings

FEWEST = 10_000
SETTLED_TIMES = 3
CHUNK = 100_000
FILL_CONNECTIONS = 3
DAYS = 30
FIRST_TURNS = 10
"""Statements are planned in these."""
WARM_UP_TURNS = USERS // BATCH
"""After these, the index pages of every user were written since the checkpoint."""
TURNS = 80
STEPS = ("accept", "claim", "settle")
CHARTS = ("growth", "growth_checkpoint")

# Rows are as wide as those that are accepted later. Ids follow the time at which each was accepted. What
# waits is due in the past, in the order of its ids: a long backlog that a worker has to catch up with.
FILL = """
with made as materialized (
    select
        uuidv7(at - now()) as id,
        uuidv7(at - now()) as delivery_id,
        'user-' || number * 7919 % {users} as user_id,
        at
    from generate_series($1::bigint, $1 + $2::bigint - 1) as number,
        lateral (select $3::timestamptz + number * $4::interval as at) as times
),
accepted as (
    insert into notifications (
        id, producer, idempotency_key, fingerprint, type, version, audience, payload, accepted_at
    )
    select
        id, 'bench', id::text, 'f', 'new_customer', 2,
        jsonb_build_object('users', jsonb_build_array(user_id)), '{"customer_name": "Ali Veli"}', at
    from made
)
insert into deliveries (
    id, notification_id, channel, lane, user_id, state, due_at, created_at, attempts, provider,
    provider_message_id, device_id, settled_at
)
select
    delivery_id, id, 'push', 'fcm', user_id, 'pending', at, at, 0, null, null, null, null
from made
""".replace("{users}", str(USERS))
FILL_SETTLED = FILL.replace(
    "'pending', at, at, 0, null, null, null, null",
    "'sent', at, at, 1, 'fcm', 'projects/bench/messages/0:1767225600000000%' || delivery_id, delivery_id,\n"
    "    at + interval '1 second'",
)

FILL_DEVICES = """
insert into devices (id, user_id, provider, platform, token, token_hash, registered_at, last_seen_at)
select uuidv7(), 'user-' || number, 'fcm', 'android', 'token-' || number, int4send(number), now(), now()
from generate_series(0, {users} - 1) as number
""".replace("{users}", str(USERS))


# Those of constraints stay: they cannot be dropped alone.
INDEXES = """
select indexname, indexdef
from pg_indexes
where schemaname = current_schema()
    and tablename = any($1)
    and not exists (
        select
        from pg_constraint
        where conindid = format('%I.%I', schemaname, indexname)::regclass
    )
order by indexname
"""
TABLES = ("notifications", "deliveries")
FILL_FACTOR = """
select option_value
from pg_class, pg_options_to_table(reloptions)
where oid = 'deliveries'::regclass and option_name = 'fillfactor'
"""
SETTLED_FILL_FACTOR = 80
"""How full pages are once their rows are settled: then no later row fits between them."""

QUICKLY = {"synchronous_commit": "off", "session_replication_role": "replica"}
WAL = "select wal_bytes::float8 as bytes, wal_fpi as pages from pg_stat_get_backend_wal(pg_backend_pid())"


class Phase(msgspec.Struct):
    """What each step cost in some turns, and the WAL that was written for a message."""

    costs: dict[str, Cost]
    wal_bytes: float = 0.0
    wal_pages: float = 0.0


class _Size:
    """A schema with so many rows, and what each step cost on it, right after a checkpoint and later."""

    def __init__(self, connection: asyncpg.Connection, hot: Hot, waiting: int, settled: int) -> None:
        self._connection = connection
        self._hot = hot
        self.waiting = waiting
        self.settled = settled
        self.fresh = _phase()
        self.later = _phase()

    @property
    def label(self) -> str:
        """How it is called in the results."""
        beside = f" + {_short(self.settled)} settled" if self.settled else " waiting"
        return f"{_short(self.waiting)}{beside}"

    async def turn(self, phase: Phase) -> None:
        """Accept, claim and settle a batch."""
        before = await self._wal()
        await self._hot.turn(phase.costs)
        after = await self._wal()
        phase.wal_bytes += after["bytes"] - before["bytes"]
        phase.wal_pages += after["pages"] - before["pages"]

    async def _wal(self) -> asyncpg.Record:
        await self._connection.execute("select pg_stat_force_next_flush()")
        return await self._connection.fetchrow(WAL)


class Growth:
    name = "growth"
    title = "Growth"

    def __init__(self, most: int) -> None:
        self._most = max(most, FEWEST)

    async def measure(self, arena: Arena) -> Sequence[Reading | Chart]:
        """Fill schemas of several sizes, and take turns on them."""
        waiting = sorted({FEWEST, max(FEWEST, self._most // 10), self._most})
        rows = [*((each, 0) for each in waiting), (FEWEST, SETTLED_TIMES * self._most)]
        async with database(arena.workdir) as (url, _):
            for each in rows:
                await migrate(url, _schema(*each), PoolSettings())
            sizes = await asyncio.gather(*(_filled(url, *each) for each in rows))
            gc.collect()
            gc.freeze()  # As a worker does, or one full collection falls into the share of one size.
            await _take_turns(sizes, [_phase() for _ in sizes], FIRST_TURNS)
            await _checkpoint(url)
            await _take_turns(sizes, [size.fresh for size in sizes], TURNS)
            await _take_turns(sizes, [_phase() for _ in sizes], WARM_UP_TURNS)
            await _take_turns(sizes, [size.later for size in sizes], TURNS)
        return [*_readings(sizes), *_charts(sizes[:-1])]


async def _take_turns(sizes: Sequence[_Size], phases: Sequence[Phase], turns: int) -> None:
    for _ in range(turns):
        for size, phase in zip(sizes, phases, strict=True):
            await size.turn(phase)


async def _checkpoint(url: str) -> None:
    connection = await asyncpg.connect(url)
    # No other one before the end, so that it is known how long ago it was.
    await connection.execute("alter system set max_wal_size = '32GB'")
    await connection.execute("alter system set checkpoint_timeout = '1h'")
    await connection.execute("select pg_reload_conf()")
    await connection.execute("checkpoint")
    await connection.close()


async def _filled(url: str, waiting: int, settled: int) -> _Size:
    schema = _schema(waiting, settled)
    connection = await asyncpg.connect(url, server_settings=connection_settings(schema) | LOOKUPS_ONLY)
    for table in TABLES:
        await connection.execute(f"alter table {table} set (autovacuum_enabled = false)")
    # Indexes are built once, at the end.
    indexes = await connection.fetch(INDEXES, TABLES)
    for each in indexes:
        await connection.execute(f"drop index {each['indexname']}")
    await connection.execute(FILL_DEVICES)
    span = timedelta(days=DAYS)
    fill_factor = await connection.fetchval(FILL_FACTOR)
    await connection.execute(f"alter table deliveries set (fillfactor = {SETTLED_FILL_FACTOR})")
    await _fill(url, schema, FILL_SETTLED, settled, utc_now() - span, span / max(settled, 1))
    await connection.execute(f"alter table deliveries set (fillfactor = {fill_factor})")
    await _fill(url, schema, FILL, waiting, utc_now() - timedelta(minutes=1), timedelta(microseconds=1))
    await connection.execute("set maintenance_work_mem = '1GB'")
    for each in indexes:
        tell(f"{schema}: {each['indexname']}")
        await connection.execute(each["indexdef"])
    for table in (*TABLES, "devices"):
        await connection.execute(f"vacuum (analyze) {table}")
        await connection.execute(f"alter table {table} reset (autovacuum_enabled)")
    backend = psutil.Process(await connection.fetchval("select pg_backend_pid()"))
    return _Size(connection, Hot(connection, backend), waiting, settled)


async def _fill(url: str, schema: str, statement: str, rows: int, start: datetime, step: timedelta) -> None:
    """Insert chunks on several connections, without a check of foreign keys."""
    chunks = iter(range(0, rows, CHUNK))
    done = count(CHUNK, CHUNK)

    async def work(connection: asyncpg.Connection, chunks: Iterator[int]) -> None:
        for first in chunks:
            await connection.execute(statement, first, min(CHUNK, rows - first), start, step)
            if (ready := next(done)) % (10 * CHUNK) == 0:
                tell(f"{schema}: {ready:,} of {rows:,} rows")

    async with AsyncExitStack() as stack, asyncio.TaskGroup() as group:
        for _ in range(min(FILL_CONNECTIONS, -(-rows // CHUNK))):
            connection = await asyncpg.connect(url, server_settings=connection_settings(schema) | QUICKLY)
            stack.push_async_callback(connection.close)
            group.create_task(work(connection, chunks))


def _schema(waiting: int, settled: int) -> str:
    return f"growth_{waiting}_{settled}"


def _phase() -> Phase:
    return Phase({step: Cost() for step in STEPS})


def _readings(sizes: Sequence[_Size]) -> list[Reading]:
    found = []
    for step in STEPS:
        for name, phases in _phases(sizes).items():
            costs = [phase.costs[step] for phase in phases]
            for size, cost in zip(sizes, costs, strict=True):
                found.append(Reading(f"{step}: {size.label}{name}", _micros(cost), "µs", note=_note(cost)))
            for size, cost in list(zip(sizes, costs, strict=True))[1:]:
                found.append(
                    Reading(
                        f"{step}: {size.label} against {_short(FEWEST)}{name}",
                        _micros(cost) / _micros(costs[0]),
                        "times",
                        Goal(1.3, least=False) if step == "claim" and not name else None,
                        note=f"of CPU {cost.cpu / costs[0].cpu:.2f} times",
                    )
                )
    for name, phases in _phases(sizes).items():
        for size, phase in zip(sizes, phases, strict=True):
            messages = phase.costs["settle"].rows
            pages = f"{phase.wal_pages / messages:.2f} whole pages among it"
            found.append(
                Reading(f"WAL a message: {size.label}{name}", phase.wal_bytes / messages, "bytes", note=pages)
            )
    return found


def _phases(sizes: Sequence[_Size]) -> dict[str, list[Phase]]:
    return {
        "": [size.later for size in sizes],
        ", just after a checkpoint": [size.fresh for size in sizes],
    }


def _note(cost: Cost) -> str:
    return f"the median of batches of {BATCH} on one connection, taken in turns; on average {cost}"


def _charts(sizes: Sequence[_Size]) -> list[Chart]:
    return [
        Chart(
            name=file_name,
            title=f"cost of a row by how many wait{name}",
            across="waiting rows, thousands",
            upwards="µs",
            curves=tuple(
                Curve(
                    step,
                    tuple(
                        (size.waiting / 1_000, _micros(phase.costs[step]))
                        for size, phase in zip(sizes, phases, strict=True)
                    ),
                )
                for step in STEPS
            ),
        )
        for file_name, (name, phases) in zip(CHARTS, _phases(sizes).items(), strict=True)
    ]


def _micros(cost: Cost) -> float:
    """Return the time of a row in the median batch: whatever else the machine did slows some of them down."""
    return statistics.median(cost.batches) / BATCH * 1e6


def _short(rows: int) -> str:
    """Abbreviate a number of rows, such as 10 k or 3 M."""
    return f"{rows // 1_000_000} M" if rows >= 1_000_000 else f"{rows // 1_000} k"
