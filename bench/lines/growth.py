"""What accepting, claiming and settling cost the database as its tables grow."""

import gc
from collections.abc import Sequence
from datetime import timedelta

import asyncpg
import psutil

from bench.contract import Arena, Chart, Curve, Goal, Reading
from bench.progress import tell
from bench.retention.fill import FILL as FILL_SETTLED
from bench.retention.hot_path import BATCH, Cost, Hot
from bench.tocsin_server import database
from tocsin.engine.clock import utc_now
from tocsin.store.migrate import migrate
from tocsin.store.pool import LOOKUPS_ONLY, PoolSettings, connection_settings

FEWEST = 10_000
SETTLED_TIMES = 3
CHUNK = 100_000
DAYS = 30
WARM_UP, TURNS = 10, 80
STEPS = ("accept", "claim", "settle")

# Due in the past, in the order of their ids: a long backlog that a worker has to catch up with.
FILL_WAITING = """
with accepted as (
    insert into notifications (
        id, producer, idempotency_key, fingerprint, type, version, audience, payload, accepted_at
    )
    select
        uuidv7(), 'bench', 'waiting-' || number, decode(md5(number::text), 'hex'), 'new_customer', 2,
        jsonb_build_object('users', jsonb_build_array('user-' || number % 100000)),
        jsonb_build_object('customer_name', 'Customer ' || number),
        $3::timestamptz + number * interval '1 microsecond'
    from generate_series($1::bigint, $1 + $2::bigint - 1) as number
    returning id, accepted_at, audience -> 'users' ->> 0 as user_id
)
insert into deliveries (id, notification_id, channel, lane, user_id, state, due_at, created_at)
select uuidv7(), id, 'push', 'fcm', user_id, 'pending', accepted_at, accepted_at
from accepted
"""

FILL_DEVICES = """
insert into devices (id, user_id, provider, platform, token, token_hash, registered_at, last_seen_at)
select uuidv7(), 'user-' || number, 'fcm', 'android', 'token-' || number, int4send(number), now(), now()
from generate_series(0, 99999) as number
"""


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
TABLES = ("notifications", "deliveries", "attempts")


class _Size:
    """A schema with so many rows, and what each step cost on it."""

    def __init__(self, hot: Hot, waiting: int, settled: int) -> None:
        self.hot = hot
        self.waiting = waiting
        self.settled = settled
        self.costs = {step: Cost() for step in STEPS}

    @property
    def label(self) -> str:
        """How it is called in the results."""
        beside = f" + {_short(self.settled)} settled" if self.settled else " waiting"
        return f"{_short(self.waiting)}{beside}"


class Growth:
    name = "growth"
    title = "Growth"

    def __init__(self, most: int) -> None:
        self._most = max(most, FEWEST)

    async def measure(self, arena: Arena) -> Sequence[Reading | Chart]:
        """Fill schemas of several sizes, and take turns on them."""
        waiting = sorted({FEWEST, max(FEWEST, self._most // 10), self._most})
        async with database(arena.workdir) as (url, _):
            sizes = [await _filled(url, rows, 0) for rows in waiting]
            sizes.append(await _filled(url, FEWEST, SETTLED_TIMES * self._most))
            gc.collect()
            gc.freeze()  # As a worker does, or one full collection falls into the share of one size.
            scratch = {step: Cost() for step in STEPS}
            for number in range(WARM_UP + TURNS):
                for size in sizes:
                    await size.hot.turn(size.costs if number >= WARM_UP else scratch)
        return [*_readings(sizes), _chart(sizes[:-1])]


async def _filled(url: str, waiting: int, settled: int) -> _Size:
    schema = f"growth_{waiting}_{settled}"
    await migrate(url, schema, PoolSettings())
    connection = await asyncpg.connect(url, server_settings=connection_settings(schema) | LOOKUPS_ONLY)
    await connection.execute("set synchronous_commit = off")
    # Foreign keys are not checked while it is filled, and indexes are built once, at the end.
    await connection.execute("set session_replication_role = replica")
    indexes = await connection.fetch(INDEXES, TABLES)
    for each in indexes:
        await connection.execute(f"drop index {each['indexname']}")
    await connection.execute(FILL_DEVICES)
    span = timedelta(days=DAYS)
    start = utc_now() - span
    for first in range(0, settled, CHUNK):
        await connection.execute(
            FILL_SETTLED, first, min(CHUNK, settled - first), float(settled), start, span
        )
        _tell_progress(schema, first, settled)
    for first in range(0, waiting, CHUNK):
        await connection.execute(FILL_WAITING, first, min(CHUNK, waiting - first), utc_now())
        _tell_progress(schema, first, waiting)
    await connection.execute("set maintenance_work_mem = '1GB'")
    for each in indexes:
        tell(f"{schema}: {each['indexname']}")
        await connection.execute(each["indexdef"])
    await connection.execute("set session_replication_role = origin")
    await connection.execute("vacuum (analyze)")
    await connection.execute("reset synchronous_commit")
    backend = psutil.Process(await connection.fetchval("select pg_backend_pid()"))
    return _Size(Hot(connection, backend), waiting, settled)


def _tell_progress(schema: str, first: int, rows: int) -> None:
    if (first // CHUNK) % 10 == 0:
        tell(f"{schema}: {first:,} of {rows:,} rows")


def _readings(sizes: Sequence[_Size]) -> list[Reading]:
    shortest = sizes[0]
    found = []
    for step in STEPS:
        for size in sizes:
            cost = size.costs[step]
            found.append(Reading(f"{step}: {size.label}", _micros(cost), "µs", note=_note(cost)))
        for size in sizes[1:]:
            ratio = _micros(size.costs[step]) / _micros(shortest.costs[step])
            goal = Goal(1.3, least=False) if step == "claim" else None
            found.append(Reading(f"{step}: {size.label} against {_short(FEWEST)}", ratio, "times", goal))
    return found


def _note(cost: Cost) -> str:
    return f"time on one connection, in batches of {BATCH}, taken in turns; {cost}"


def _chart(sizes: Sequence[_Size]) -> Chart:
    return Chart(
        name="growth",
        title="cost of a row by how many wait",
        across="waiting rows, thousands",
        upwards="µs",
        curves=tuple(
            Curve(step, tuple((size.waiting / 1_000, _micros(size.costs[step])) for size in sizes))
            for step in STEPS
        ),
    )


def _micros(cost: Cost) -> float:
    return cost.wall / cost.rows * 1e6


def _short(rows: int) -> str:
    """Abbreviate a number of rows, such as 10 k or 3 M."""
    return f"{rows // 1_000_000} M" if rows >= 1_000_000 else f"{rows // 1_000} k"
