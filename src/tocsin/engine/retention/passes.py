"""One pass of retention: prunes every table in batches, each a transaction of its own, with pauses between.

What a pass does not reach, the next one finds: it may end at any batch.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import Concatenate, ParamSpec, TypeAlias, TypeVar

from tocsin.domain.retention import RetentionSettings, cutoffs
from tocsin.store.health.circuit_breakers import forget_circuits
from tocsin.store.pool import Connection, Pool
from tocsin.store.retention import settled
from tocsin.store.retention.tables import CIRCUITS_KEPT, RULES, count_by_time, prune_by_time

LONGEST_PAUSE = 60.0

Proceed: TypeAlias = Callable[[], Awaitable[None]]
"""Returns if the next batch may be pruned, and raises PassEndedError if the pass has to end."""
Report: TypeAlias = Callable[[Mapping[str, int]], None]

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class PassEndedError(Exception):
    """The pass ends before everything was pruned; the text is the reason."""


class RetentionPass:
    """Prunes what is past its retention at `now`; `pruned` counts the rows by table."""

    def __init__(
        self,
        pool: Pool,
        settings: RetentionSettings,
        now: datetime,
        *,
        proceed: Proceed,
        report: Report | None = None,
    ) -> None:
        self._pool = pool
        self._settings = settings
        self._cutoffs = cutoffs(settings, now)
        self._proceed = proceed
        self._report = report
        self.pruned: Counter[str] = Counter()

    async def run(self) -> None:
        """Prune every table; raise PassEndedError if it has to end early."""
        await self._prune_by_time()
        await self._prune_notifications()
        await self._prune_digests()
        await self._paced(forget_circuits, self._cutoffs.now - CIRCUITS_KEPT)

    async def _prune_by_time(self) -> None:
        size = self._settings.batch_size
        for rule in RULES:
            before = rule.cutoff(self._cutoffs)
            count = size if before else 0
            while before and count == size:
                count = await self._paced(prune_by_time, rule, before, size)
                self._count({rule.table: count})

    async def _prune_notifications(self) -> None:
        after, size = settled.START, self._settings.batch_size
        while page := await self._paced(settled.list_notifications, after, self._cutoffs, size):
            after = page[-1].id
            old = [each for each in page if settled.is_prunable(each, self._cutoffs)]
            for batch in settled.split(old, size):
                self._count(await self._paced(settled.prune_notifications, batch, self._cutoffs))

    async def _prune_digests(self) -> None:
        after, size = settled.START, self._settings.batch_size
        while page := await self._paced(settled.list_digests, after, self._cutoffs, size):
            after = page[-1].id
            if old := [each for each in page if settled.is_ended(each, self._cutoffs)]:
                self._count(await self._paced(settled.prune_digests, old, self._cutoffs))

    async def _paced(
        self,
        work: Callable[Concatenate[Connection, Arguments], Awaitable[Result]],
        *args: Arguments.args,
        **kwargs: Arguments.kwargs,
    ) -> Result:
        """Call `work` with a connection, then pause, so that work takes its share of the time."""
        await self._proceed()
        async with self._pool.acquire() as connection:
            began = time.monotonic()
            result = await work(connection, *args, **kwargs)
        taken = time.monotonic() - began
        await asyncio.sleep(min(taken * (1 / self._settings.share - 1), LONGEST_PAUSE))
        return result

    def _count(self, pruned: Mapping[str, int]) -> None:
        self.pruned.update(pruned)
        if self._report is not None:
            self._report(self.pruned)


async def count_prunable(
    pool: Pool, settings: RetentionSettings, now: datetime, report: Report | None = None
) -> Counter[str]:
    """Count the rows that a pass at `now` would prune, by table, without changing anything."""
    times, size = cutoffs(settings, now), settings.batch_size
    counted: Counter[str] = Counter()
    async with pool.acquire() as connection:
        for rule in RULES:
            if before := rule.cutoff(times):
                counted[rule.table] = await count_by_time(connection, rule, before)
        after = settled.START
        while page := await settled.list_notifications(connection, after, times, size):
            after = page[-1].id
            counted.update(settled.count_prunable(page, times))
            if report is not None:
                report(counted)
        after = settled.START
        while digests := await settled.list_digests(connection, after, times, size):
            after = digests[-1].id
            counted["digests"] += sum(settled.is_ended(each, times) for each in digests)
            counted["deliveries"] += sum(each.carriers for each in digests if settled.is_ended(each, times))
    return counted
