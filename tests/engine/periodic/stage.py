"""Periodic producers on a real database, with a clock that can be moved."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

from tests.engine.stage import MovableClock, Stage
from tests.waiting import found
from tocsin.domain.intent import Audience, Intent
from tocsin.engine.accept.planner import Planner
from tocsin.engine.periodic import scheduler as scheduling
from tocsin.engine.periodic.claim import claim_run, register
from tocsin.engine.periodic.python import PythonSource, python_source
from tocsin.engine.periodic.run import Run, RunTools
from tocsin.engine.periodic.scheduler import Scheduler
from tocsin.engine.periodic.source import Source
from tocsin.periodic import Body, periodic
from tocsin.store.pool import Pool
from tocsin.store.sources import progress
from tocsin.store.sources.progress import ProgressRow

EVERY_QUARTER = "*/15 * * * *"
LEASE = timedelta(seconds=30)


def a_source(body: Body, cron: str = EVERY_QUARTER, **changes: Any) -> PythonSource:
    """Declare a generator as a producer named `feed`."""
    return python_source(periodic(cron, name=changes.pop("name", "feed"), **changes)(body))


def numbered(number: int, **changes: Any) -> Intent:
    fields: dict[str, Any] = {
        "type": "alert",
        "audience": Audience(users=["ada"]),
        "payload": {"text": f"number {number}"},
        "idempotency_key": f"number-{number}",
    }
    return Intent(**fields | changes)


class PeriodicStage:
    """Runs producers as a worker does, or one step at a time."""

    def __init__(self, stage: Stage, pool: Pool) -> None:
        self.pool = pool
        self.clock: MovableClock = stage.clock
        self.tools = RunTools(
            pool=pool,
            planner=Planner(stage.catalog, {"push": ("fcm",)}, {}, stage.toggles),
            lease_for=LEASE,
            clock=stage.clock,
        )

    async def register(self, *sources: Source) -> None:
        async with self.pool.acquire() as connection:
            await register(connection, sources, self.clock())

    async def progress(self, name: str = "feed") -> ProgressRow:
        async with self.pool.acquire() as connection:
            [row] = [row for row in await progress.list_progress(connection) if row.name == name]
        return row

    async def claim(self, source: Source) -> Run | None:
        """Look once, as a scheduler does, and give the run if there is one to do."""
        row = await self.progress(source.name)
        async with self.pool.acquire() as connection:
            claimed = await claim_run(connection, row, source.schedule, lease_for=LEASE, now=self.clock())
        return Run(source, claimed, self.tools) if claimed else None

    async def perform(self, source: Source) -> bool:
        """Run it if it is due."""
        run = await self.claim(source)
        if run is not None:
            await run.perform()
        return run is not None

    async def request(self, name: str = "feed") -> None:
        async with self.pool.acquire() as connection:
            assert await progress.request_run(connection, name, self.clock())

    async def keys(self) -> list[str]:
        """Name what was accepted, in order."""
        rows = await self.pool.fetch("select idempotency_key from notifications order by id")
        return [row[0] for row in rows]

    @asynccontextmanager
    async def scheduling(self, *sources: Source, schedulers: int = 1) -> AsyncIterator[None]:
        """Run schedulers until the block ends, each as a worker of its own would."""
        tasks = [asyncio.create_task(Scheduler(sources, self.tools).run()) for _ in range(schedulers)]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def until_accepted(self, count: int) -> Sequence[str]:
        async def look() -> list[str]:
            keys = await self.keys()
            return keys if len(keys) >= count else []

        return await found(look)


def poll_often(monkeypatch: Any) -> None:
    """Let schedulers poll more often than once a second."""
    monkeypatch.setattr(scheduling, "POLL_SECONDS", 0.02)
