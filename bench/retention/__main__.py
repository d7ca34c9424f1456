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
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import asyncpg
import psutil

from bench.progress import tell
from bench.retention.fill import FILL
from bench.retention.hot_path import Cost, Hot, busy
from tocsin.domain.retention import RetentionSettings
from tocsin.engine.clock import utc_now
from tocsin.engine.retention.passes import RetentionPass
from tocsin.store.embedded import EmbeddedPostgres
from tocsin.store.migrate import migrate
from tocsin.store.pool import LOOKUPS_ONLY, Pool, PoolSettings, connection_settings, open_pool

SCHEMA = "tocsin"
DAYS = 60
CHUNK = 100_000
ROUNDS = 100
TABLES = ("notifications", "deliveries", "attempts")


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
        lsn, cpu, wall = await self._lsn(), busy([self._vacuuming]), time.perf_counter()
        await self._vacuum()
        cost = Cost(pruned, busy([self._vacuuming]) - cpu, time.perf_counter() - wall)
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
        cpu, wall = busy(backends), time.perf_counter()
        await work.run()
        deliveries = work.pruned["deliveries"]
        cost = Cost(deliveries, busy(backends) - cpu, time.perf_counter() - wall)
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
