"""The scheduler: starts the runs of periodic producers that are due, each on one worker at a time."""

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial

from tocsin.engine.duty import repeat
from tocsin.engine.periodic.claim import claim_run, register
from tocsin.engine.periodic.run import Run, RunTools
from tocsin.engine.periodic.source import Source
from tocsin.store.sources import progress
from tocsin.store.sources.progress import ProgressRow

POLL_SECONDS = 1.0
SEEN_EVERY = timedelta(minutes=1)
MOST_AT_ONCE = 4


class Scheduler:
    """Claims runs that are due or requested, every second and whenever a run has ended."""

    def __init__(self, sources: Sequence[Source], tools: RunTools) -> None:
        self._sources = {source.name: source for source in sources}
        self._tools = tools
        self._running: set[str] = set()
        self._ended = asyncio.Event()
        self._seen_at: datetime | None = None

    async def run(self) -> None:
        """Start runs until cancelled; runs under way then release their leases to other workers."""
        if not self._sources:
            return
        async with asyncio.TaskGroup() as runs:
            await repeat(
                partial(self._start_due, runs),
                name="periodic scheduler",
                every=POLL_SECONDS,
                wake=self._ended,
            )

    async def _start_due(self, runs: asyncio.TaskGroup) -> None:
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
                await register(connection, self._sources.values(), now)
                self._seen_at = now
            elif abs(now - self._seen_at) >= SEEN_EVERY:
                await progress.seen(connection, list(self._sources), now)
                self._seen_at = now
            return await progress.list_progress(connection)

    async def _claim(self, source: Source, row: ProgressRow) -> Run | None:
        lease_for, now = self._tools.lease_for, self._tools.clock()
        async with self._tools.pool.acquire() as connection:
            claimed = await claim_run(connection, row, source.schedule, lease_for=lease_for, now=now)
        return Run(source, claimed, self._tools) if claimed else None
