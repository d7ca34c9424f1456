"""One pass of retention: prunes every table in batches, each a transaction of its own, with pauses between.

What a pass does not reach, the next one finds: it may end at any batch.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import Concatenate, ParamSpec, TypeAlias, TypeVar
from uuid import UUID

import asyncpg
import msgspec

from tocsin.domain.ids import first_id_at
from tocsin.domain.retention import Cutoffs, RetentionSettings, cutoffs
from tocsin.store.health.circuit_breakers import forget_circuits
from tocsin.store.pool import Connection, Pool
from tocsin.store.retention import settled
from tocsin.store.retention.settled import Counts, Old, Page
from tocsin.store.retention.tables import CIRCUITS_KEPT, RULES, count_by_time, prune_by_time

LONGEST_PAUSE = 60.0
FIRST_SIZE = 1_000
SLOW_SECONDS, QUICK_SECONDS = 2.0, 0.2
STATEMENT_TIMEOUTS = (TimeoutError, asyncpg.QueryCanceledError)

Proceed: TypeAlias = Callable[[], Awaitable[None]]
"""Returns if the next batch may be pruned, and raises PassEndedError if the pass has to end."""
Report: TypeAlias = Callable[[Mapping[str, int]], None]
List: TypeAlias = Callable[[Connection, UUID, Cutoffs, int], Awaitable[Page]]
Prune: TypeAlias = Callable[[Connection, Sequence[Old], Cutoffs, int], Awaitable[Counts]]
Count: TypeAlias = Callable[[Sequence[Old], Cutoffs], Counts]

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class PassEndedError(Exception):
    """The pass ends before everything was pruned; the text is the reason."""


class BatchSize:
    """How many rows one statement reads or deletes: less when it was slow, more when it was quick."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.value = min(FIRST_SIZE, most)

    def adapt(self, seconds: float) -> None:
        """Choose the next size after a batch that took so long."""
        if seconds > SLOW_SECONDS:
            self.value = max(self.value // 2, 1)
        elif seconds < QUICK_SECONDS:
            self.value = min(self.value * 2, self._most)

    def shrink(self, used: int) -> bool:
        """Choose a much smaller size after a timeout and stay below `used`; return False if that was 1."""
        self._most = max(used // 2, 1)
        self.value = max(used // 10, 1)
        return used > 1


class RetentionPass:
    """Prunes what is past its retention at `now`; `pruned` counts the rows by table.

    Notifications without deliveries are looked for among those accepted after `examined_until`, the end of
    an earlier pass. A dry run counts and changes nothing.
    """

    def __init__(
        self,
        pool: Pool,
        settings: RetentionSettings,
        now: datetime,
        *,
        proceed: Proceed,
        report: Report | None = None,
        examined_until: datetime | None = None,
        dry_run: bool = False,
    ) -> None:
        self._pool = pool
        self._settings = settings
        self._cutoffs = cutoffs(settings, now)
        self._proceed = proceed
        self._report = report
        self._dry_run = dry_run
        self._size = BatchSize(settings.batch_size)
        self.pruned: Counter[str] = Counter()
        self.examined_until = examined_until

    async def run(self) -> None:
        """Prune every table; raise PassEndedError if it has to end early."""
        await self._prune_by_time()
        prune, count = settled.prune_notifications, settled.count_notifications
        await self._walk(settled.list_notifications, prune, count)
        since, until = self.examined_until, self._cutoffs.content
        after = first_id_at(since) if since else settled.START
        await self._walk(settled.list_without_deliveries, prune, count, after)
        self.examined_until = max(since, until) if since and until else until or since
        await self._walk(settled.list_digests, settled.prune_digests, settled.count_digests)
        if not self._dry_run:
            await self._paced(forget_circuits, self._cutoffs.now - CIRCUITS_KEPT)

    async def _prune_by_time(self) -> None:
        for rule in RULES:
            before = rule.cutoff(self._cutoffs)
            if before and self._dry_run:
                self._count({rule.table: await self._paced(count_by_time, rule, before)})
                continue
            more = before is not None
            while before and more:
                size = self._size.value
                try:
                    count = await self._paced(prune_by_time, rule, before, size)
                except STATEMENT_TIMEOUTS:
                    if not self._size.shrink(size):
                        raise
                else:
                    self._count({rule.table: count})
                    more = count == size

    async def _walk(
        self, list_page: List, prune: Prune, count: Count, after: UUID | None = settled.START
    ) -> None:
        """Prune page after page; one that meets a timeout is repeated with much fewer rows."""
        while after is not None:
            size = self._size.value
            try:
                page = await self._paced(list_page, after, self._cutoffs, size)
                old = [each for each in page.old if settled.is_prunable(each, self._cutoffs)]
                if self._dry_run:
                    self._count(count(old, self._cutoffs))
                elif old:
                    await self._prune(prune, old, size)
            except STATEMENT_TIMEOUTS:
                if not self._size.shrink(size):
                    raise
            else:
                after = page.after

    async def _prune(self, prune: Prune, old: Sequence[Old], size: int) -> None:
        """Prune a page; a notification with more deliveries than `size` takes several batches."""
        deliveries = size
        while deliveries == size:
            pruned = await self._paced(prune, old, self._cutoffs, size)
            deliveries = pruned["deliveries"]
            self._count(pruned)

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
        self._size.adapt(taken)
        await asyncio.sleep(min(taken * (1 / self._settings.share - 1), LONGEST_PAUSE))
        return result

    def _count(self, pruned: Mapping[str, int]) -> None:
        self.pruned.update(+Counter(pruned))
        if self._report is not None:
            self._report(self.pruned)


async def count_prunable(
    pool: Pool, settings: RetentionSettings, now: datetime, report: Report | None = None
) -> Counter[str]:
    """Count the rows that a pass at `now` would prune, by table, without changing anything."""

    async def proceed() -> None:
        pass

    at_once = msgspec.structs.replace(settings, share=1.0)
    work = RetentionPass(pool, at_once, now, proceed=proceed, report=report, dry_run=True)
    await work.run()
    return work.pruned
