"""What a pass of retention costs on a full table: `python -m bench.retention --rows 10000000`.

Notifications of 60 days, each with one settled delivery, one in twenty with a failed attempt. A first pass
prunes a sixth of them with nothing else going on: its own cost, its WAL and the vacuum after it. A second one
prunes as many with the defaults, while intents are accepted, claimed and settled: what those feel of it.
Processor time is that of the database's processes for it, so other work on the machine counts for little.
"""

import argparse
import asyncio
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import asyncpg
import msgspec
import psutil

from bench.progress import tell
from tocsin.domain.delivery.states import State
from tocsin.domain.ids import new_delivery_id, new_lease_id, new_notification_id
from tocsin.domain.plan import PlannedDelivery
from tocsin.domain.retention import RetentionSettings
from tocsin.engine.clock import utc_now
from tocsin.engine.retention.passes import RetentionPass
from tocsin.store.deliveries.claim import START, claim
from tocsin.store.deliveries.settle import SentDelivery, settle_sent
from tocsin.store.embedded import EmbeddedPostgres
from tocsin.store.migrate import migrate
from tocsin.store.notifications import NewNotification, accept
from tocsin.store.pool import LOOKUPS_ONLY, Pool, PoolSettings, connection_settings, open_pool

SCHEMA = "tocsin"
DAYS = 60
CHUNK = 100_000
BATCH = 100
ROUNDS = 100
TABLES = ("notifications", "deliveries", "attempts")

# UUIDv7 of the time at which each was accepted, spread evenly over the days.
FILL = """
with made as materialized (
    select
        number,
        at,
        (
            lpad(to_hex(floor(extract(epoch from at) * 1000)::bigint), 12, '0') || '7000'
            || '8' || lpad(to_hex(number), 15, '0')
        )::uuid as id,
        (
            lpad(to_hex(floor(extract(epoch from at) * 1000)::bigint), 12, '0') || '7001'
            || '8' || lpad(to_hex(number), 15, '0')
        )::uuid as delivery_id
    from generate_series($1::bigint, $1 + $2::bigint - 1) as number,
        lateral (select $4::timestamptz + number * ($5::interval / $3::float8) as at) as times
),
accepted as (
    insert into notifications (
        id, producer, idempotency_key, fingerprint, type, version, audience, payload, accepted_at
    )
    select
        id, 'bench', 'order-shipped-' || number, decode(md5(number::text), 'hex'), 'new_customer', 2,
        jsonb_build_object('users', jsonb_build_array('user-' || number % 100000)),
        jsonb_build_object('customer_name', 'Customer ' || number, 'order', md5(number::text)), at
    from made
),
delivered as (
    insert into deliveries (
        id, notification_id, channel, lane, user_id, state, attempts, due_at, provider, provider_message_id,
        device_id, created_at, settled_at
    )
    select
        delivery_id, id, 'push', 'fcm', 'user-' || number % 100000, 'sent', 1, at, 'fcm',
        'projects/bench/messages/' || md5(number::text), delivery_id, at, at + interval '1 second'
    from made
)
insert into attempts (delivery_id, outcome, code, detail, at)
select delivery_id, 'retry', 'UNAVAILABLE', 'The service is currently unavailable.', at
from made
where number % 20 = 0
"""


class Cost(msgspec.Struct):
    """Processor and wall time of some rows."""

    rows: int = 0
    cpu: float = 0.0
    wall: float = 0.0

    def __str__(self) -> str:
        """Format it per row."""
        rows = max(self.rows, 1)
        return f"{self.cpu / rows * 1e6:.1f} µs of CPU a row, {self.wall / rows * 1e6:.1f} µs of time"


class Hot:
    """Accepts, claims and settles on a connection of its own, as an API and a worker do."""

    def __init__(self, connection: asyncpg.Connection, backend: psutil.Process) -> None:
        self._connection = connection
        self._backend = backend

    async def measure(self, until: Callable[[int], bool]) -> dict[str, Cost]:
        """Take turns until told to stop; return the cost of each step."""
        costs = {"accept": Cost(), "claim": Cost(), "settle": Cost()}
        turn = 0
        while not until(turn):
            await self._turn(costs)
            turn += 1
        return costs

    async def _turn(self, costs: dict[str, Cost]) -> None:
        now, lease = utc_now(), new_lease_id()
        new = [_notification(now) for _ in range(BATCH)]
        await self._counted(costs["accept"], accept(self._connection, new, ["fcm"], now))
        claimed = await self._counted(
            costs["claim"],
            claim(
                self._connection,
                "fcm",
                lease=lease,
                now=utc_now(),
                until=now + timedelta(minutes=5),
                after=START,
                limit=BATCH,
            ),
        )
        sent = [SentDelivery(id=each.id, lease=lease, provider="fcm", message_id="m") for each in claimed]
        await self._counted(costs["settle"], settle_sent(self._connection, sent, utc_now()))

    async def _counted(self, cost: Cost, work: Awaitable[Any]) -> Any:
        cpu, wall = _busy([self._backend]), time.perf_counter()
        result = await work
        cost.cpu += _busy([self._backend]) - cpu
        cost.wall += time.perf_counter() - wall
        cost.rows += BATCH
        return result


def _notification(now: datetime) -> NewNotification:
    notification_id = new_notification_id()
    delivery = PlannedDelivery(
        id=new_delivery_id(), channel="push", user_id="user-1", lane="fcm", state=State.PENDING, due_at=now
    )
    return NewNotification(
        id=notification_id,
        producer="bench",
        idempotency_key=str(notification_id),
        type="new_customer",
        version=2,
        collapse_key=None,
        request_id=None,
        trace_id=None,
        occurred_at=None,
        send_at=None,
        send_at_local=None,
        expires_at=None,
        accepted_at=now,
        fingerprint=b"f",
        audience=b'{"users": ["user-1"]}',
        payload=b'{"customer_name": "Ali Veli"}',
        deliveries=[delivery],
    )


class Site:
    """A filled database, and what is measured on it."""

    def __init__(self, admin: asyncpg.Connection, pid: int, pool: Pool, hot: Hot, rows: int) -> None:
        self._admin = admin
        self._vacuuming = psutil.Process(pid)
        self._pool = pool
        self._hot = hot
        self._rows = rows

    async def fill(self) -> None:
        start, span = utc_now() - timedelta(days=DAYS), timedelta(days=DAYS)
        # Foreign keys are not checked while it is filled.
        await self._admin.execute("set session_replication_role = replica")
        await self._admin.execute("set synchronous_commit = off")
        for first in range(0, self._rows, CHUNK):
            await self._admin.execute(
                FILL, first, min(CHUNK, self._rows - first), float(self._rows), start, span
            )
            tell(f"{first + CHUNK:,} of {self._rows:,} rows")
        await self._admin.execute("set session_replication_role = origin")
        await self._vacuum()
        await self._admin.execute("checkpoint")

    async def run(self) -> None:
        await self._show("filled")
        await self._show_hot("before", lambda turn: turn == ROUNDS)

        for table in TABLES:
            await self._admin.execute(f"alter table {table} set (autovacuum_enabled = false)")
        pruned = await self._prune(RetentionSettings(days=DAYS * 5 // 6, share=1.0), "alone")
        await self._show_hot("after a pass, before vacuum", lambda turn: turn == ROUNDS)
        await self._show("pruned")
        lsn, cpu, wall = await self._lsn(), _busy([self._vacuuming]), time.perf_counter()
        await self._vacuum()
        cost = Cost(pruned, _busy([self._vacuuming]) - cpu, time.perf_counter() - wall)
        tell(f"vacuum: {cost} of a pruned delivery, WAL {(await self._lsn() - lsn) / pruned:.0f} B")
        await self._show("vacuumed")

        for table in TABLES:
            await self._admin.execute(f"alter table {table} reset (autovacuum_enabled)")
        pruning = asyncio.create_task(
            self._prune(RetentionSettings(days=DAYS * 4 // 6), "beside the hot path")
        )
        await self._show_hot("during a pass", lambda _: pruning.done())
        await pruning
        await self._show_hot("after a pass", lambda turn: turn == ROUNDS)
        await self._show("at the end")

    async def _prune(self, settings: RetentionSettings, label: str) -> int:
        async def proceed() -> None:
            """Go on."""

        work = RetentionPass(self._pool, settings, utc_now(), proceed=proceed)
        lsn = await self._lsn()
        backends = await self._backends()
        cpu, wall = _busy(backends), time.perf_counter()
        await work.run()
        deliveries = work.pruned["deliveries"]
        cost = Cost(deliveries, _busy(backends) - cpu, time.perf_counter() - wall)
        wal = (await self._lsn() - lsn) / deliveries
        tell(f"pass {label}: {+Counter(work.pruned)}, {cost}, WAL {wal:.0f} B")
        return deliveries

    async def _backends(self) -> list[psutil.Process]:
        # The pool reuses the connection that was returned last, so this opens and finds all it will use.
        async with self._pool.acquire() as connection:
            return [psutil.Process(await connection.fetchval("select pg_backend_pid()"))]

    async def _vacuum(self) -> None:
        for table in TABLES:
            await self._admin.execute(f"vacuum (analyze) {table}")

    async def _show_hot(self, label: str, until: Callable[[int], bool]) -> None:
        for step, cost in (await self._hot.measure(until)).items():
            tell(f"{label}: {step} {cost} ({cost.rows:,} rows)")

    async def _show(self, label: str) -> None:
        for table in TABLES:
            sizes = await self._admin.fetchrow(
                "select pg_table_size($1::regclass) as heap, pg_indexes_size($1::regclass) as indexes", table
            )
            tell(f"{label}: {table} {sizes['heap'] / 1e6:,.0f} MB, indexes {sizes['indexes'] / 1e6:,.0f} MB")

    async def _lsn(self) -> int:
        return int(await self._admin.fetchval("select pg_current_wal_lsn() - '0/0'::pg_lsn"))


def _busy(backends: Sequence[psutil.Process]) -> float:
    times = [each.cpu_times() for each in backends]
    return float(sum(each.user + each.system for each in times))


async def main(rows: int, folder: Path) -> None:
    """Measure on a server of its own."""
    server = EmbeddedPostgres(folder)
    url = server.start()
    try:
        await migrate(url, SCHEMA, PoolSettings())
        hot = await asyncpg.connect(url, server_settings=connection_settings(SCHEMA) | LOOKUPS_ONLY)
        admin = await asyncpg.connect(url, server_settings=connection_settings(SCHEMA))
        async with open_pool(url, SCHEMA, PoolSettings(command_timeout=600), lookups_only=True) as pool:
            backend = psutil.Process(await hot.fetchval("select pg_backend_pid()"))
            pid = await admin.fetchval("select pg_backend_pid()")
            site = Site(admin, pid, pool, Hot(hot, backend), rows)
            await site.fill()
            await site.run()
        await hot.close()
        await admin.close()
    finally:
        server.stop()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.retention", description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000, help="notifications (default: %(default)s)")
    with tempfile.TemporaryDirectory(prefix="tocsin-bench-") as name:
        Path(name).chmod(0o755)
        asyncio.run(main(parser.parse_args().rows, Path(name)))
