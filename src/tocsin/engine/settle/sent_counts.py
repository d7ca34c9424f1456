"""Counts sent deliveries by type: what rates of receipts are measured against."""

from collections import Counter
from datetime import datetime

from tocsin.engine.duty import repeat
from tocsin.store import receipts
from tocsin.store.pool import Pool
from tocsin.store.receipts import SENT, CountedType

EVERY_SECONDS = 5.0


class SentCounts:
    """Adds up what this worker sent and writes it every few seconds; a crash loses what was not written."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._counts: Counter[CountedType] = Counter()

    def add(self, type_: str, channel: str, number: int, at: datetime) -> None:
        """Count deliveries of a type that were settled as sent at a time."""
        day = at.replace(hour=0, minute=0, second=0, microsecond=0)
        self._counts[CountedType(day, type_, channel, SENT)] += number

    async def run(self) -> None:
        """Write the counts until cancelled."""
        await repeat(self.write, name="sent counts", every=EVERY_SECONDS)

    async def write(self) -> None:
        """Write what was counted since the last time; what cannot be written is kept."""
        if not self._counts:
            return
        counts, self._counts = self._counts, Counter()
        try:
            async with self._pool.acquire() as connection:
                await receipts.count(connection, counts)
        except BaseException:
            self._counts.update(counts)
            raise
