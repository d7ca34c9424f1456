"""Counts what is accepted and skipped, for the plot of the dashboard; attempts are counted by provider."""

from collections import Counter
from typing import Literal, TypeAlias

from tocsin.engine.duty import repeat
from tocsin.store.health.activity import count_activity
from tocsin.store.pool import Pool

WRITE_SECONDS = 2.0

Event: TypeAlias = Literal["accepted", "skipped"]


class Activity:
    """The events of a process that are not written yet; when it ends, the last two seconds are lost."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def add(self, event: Event, count: int = 1) -> None:
        """Count events."""
        self.counts[event] += count


activity = Activity()


class ActivityWriter:
    """Writes the counts of this process, all callers together, every two seconds."""

    def __init__(self, pool: Pool, counted: Activity = activity) -> None:
        self._pool = pool
        self._counted = counted

    async def run(self) -> None:
        """Write until cancelled."""
        await repeat(self.write, name="activity counts", every=WRITE_SECONDS)

    async def write(self) -> None:
        """Write what was counted; what cannot be written is kept for the next time."""
        counts, self._counted.counts = self._counted.counts, Counter()
        if not counts:
            return
        try:
            async with self._pool.acquire() as connection:
                await count_activity(connection, counts)
        except BaseException:
            self._counted.counts.update(counts)
            raise
