"""The scheduler: runs periodic producers when they fall due, each by one worker at a time."""

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated

import msgspec
import structlog
from msgspec import Meta

from tocsin.engine.periodic.claim import claim_run, register
from tocsin.engine.periodic.run import Run, RunTools
from tocsin.engine.periodic.source import Source
from tocsin.store import progress
from tocsin.store.pool import DATABASE_FAULTS
from tocsin.store.progress import ProgressRow

LOOK_SECONDS = 1.0
SEEN_EVERY = timedelta(minutes=1)
MOST_AT_ONCE = 4

_log = structlog.stdlib.get_logger(__name__)


class PeriodicSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where periodic producers stand: Python modules, a folder of scans, and the databases they read."""

    modules: list[str] = []
    folder: Path | None = None
    databases: dict[str, str] = {}
    lease_seconds: Annotated[float, Meta(ge=1, le=3_600)] = 60.0

    def __repr__(self) -> str:
        """Tell nothing: an address may hold a password."""
        return "PeriodicSettings(…)"


class Scheduler:
    """Looks every second, and when a run has ended, for runs that are due or asked for."""

    def __init__(self, sources: Sequence[Source], tools: RunTools) -> None:
        self._sources = {source.name: source for source in sources}
        self._tools = tools
        self._running: set[str] = set()
        self._ended = asyncio.Event()
        self._seen_at: datetime | None = None

    async def run(self) -> None:
        """Start runs until cancelled; those under way are left to other workers then."""
        if not self._sources:
            return
        async with asyncio.TaskGroup() as runs:
            while True:
                try:
                    await self._look(runs)
                except DATABASE_FAULTS as error:
                    _log.warning("looking for periodic runs failed, trying again", error=repr(error))
                try:
                    async with asyncio.timeout(LOOK_SECONDS):
                        await self._ended.wait()
                except TimeoutError:
                    continue
                self._ended.clear()

    async def _look(self, runs: asyncio.TaskGroup) -> None:
        for row in await self._rows():
            source = self._sources.get(row.name)
            if source is None or row.name in self._running or len(self._running) >= MOST_AT_ONCE:
                continue
            run = await self._claim(source, row)
            if run is not None:
                self._running.add(row.name)
                runs.create_task(self._perform(row.name, run))

    async def _perform(self, name: str, run: Run) -> None:
        try:
            await run.perform()
        finally:
            self._running.discard(name)
            self._ended.set()

    async def _rows(self) -> list[ProgressRow]:
        now = self._tools.clock()
        async with self._tools.pool.acquire() as connection:
            if self._seen_at is None:
                await register(connection, list(self._sources.values()), now)
                self._seen_at = now
            elif abs(now - self._seen_at) >= SEEN_EVERY:
                await progress.seen(connection, list(self._sources), now)
                self._seen_at = now
            return await progress.list_progress(connection)

    async def _claim(self, source: Source, row: ProgressRow) -> Run | None:
        async with self._tools.pool.acquire() as connection:
            claimed = await claim_run(
                connection,
                row,
                source.schedule,
                lease_for=self._tools.lease_for,
                now=self._tools.clock(),
            )
        return Run(source, claimed, self._tools, failures=row.failures) if claimed else None
