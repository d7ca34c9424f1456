"""Counts what is accepted and skipped, and the time until it is sent, for the plots of the dashboard.

Attempts are counted by provider.
"""

from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from typing import Literal, TypeAlias

from tocsin.domain.delivery.latency import bucket_of
from tocsin.engine.duty import repeat
from tocsin.store.health.activity import count_activity
from tocsin.store.health.latency import LatencyBucket, count_latencies
from tocsin.store.pool import Pool

WRITE_SECONDS = 2.0

Event: TypeAlias = Literal["accepted", "skipped"]


class Activity:
    """The events of a process that are not written yet; when it ends, the last two seconds are lost.

    Times until deliveries were sent are counted by bucket, from acceptance and from when they were due.
    """

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.since_accepted: Counter[int] = Counter()
        self.since_due: Counter[int] = Counter()

    def add(self, event: Event, count: int = 1) -> None:
        """Count events."""
        self.counts[event] += count

    def add_sent(self, times: Iterable[tuple[datetime, datetime]], now: datetime) -> None:
        """Count deliveries that were sent now, each by when it was accepted and when it was due."""
        since_accepted, since_due = [], []
        latest, bucket = None, 0
        for accepted_at, due_at in times:
            # Many are accepted together, and most are due when they are accepted.
            if accepted_at != latest:
                latest, bucket = accepted_at, bucket_of(now - accepted_at)
            since_accepted.append(bucket)
            since_due.append(bucket if due_at == accepted_at else bucket_of(now - due_at))
        self.since_accepted.update(since_accepted)
        self.since_due.update(since_due)

    def take(self) -> "Activity":
        """Return what was counted, and begin again."""
        taken = Activity()
        taken.counts, self.counts = self.counts, taken.counts
        taken.since_accepted, self.since_accepted = self.since_accepted, taken.since_accepted
        taken.since_due, self.since_due = self.since_due, taken.since_due
        return taken

    def put_back(self, taken: "Activity") -> None:
        """Add what was taken and could not be written."""
        self.counts.update(taken.counts)
        self.since_accepted.update(taken.since_accepted)
        self.since_due.update(taken.since_due)

    def latencies(self) -> dict[LatencyBucket, int]:
        """Return how many deliveries were sent, by measure and bucket."""
        return {
            **{LatencyBucket("accepted", bucket): count for bucket, count in self.since_accepted.items()},
            **{LatencyBucket("due", bucket): count for bucket, count in self.since_due.items()},
        }


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
        taken = self._counted.take()
        counts, latencies = taken.counts, taken.latencies()
        if not counts and not latencies:
            return
        try:
            # Both or none: what is put back is written again.
            async with self._pool.acquire() as connection, connection.transaction():
                if counts:
                    await count_activity(connection, counts)
                if latencies:
                    await count_latencies(connection, latencies)
        except BaseException:
            self._counted.put_back(taken)
            raise
