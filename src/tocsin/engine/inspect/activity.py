"""What was accepted, sent, failed and skipped over time."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Literal, TypeAlias

import msgspec

from tocsin.store.health.activity import read_activity
from tocsin.store.pool import Connection

SpanName: TypeAlias = Literal["1h", "6h", "24h", "7d"]
EVENTS = ("accepted", "sent", "failed", "skipped")
_LENGTHS: Mapping[SpanName, tuple[timedelta, timedelta]] = MappingProxyType(
    {
        "1h": (timedelta(hours=1), timedelta(minutes=1)),
        "6h": (timedelta(hours=6), timedelta(minutes=5)),
        "24h": (timedelta(hours=24), timedelta(minutes=15)),
        "7d": (timedelta(days=7), timedelta(hours=2)),
    }
)


class ActivitySeries(msgspec.Struct, frozen=True, kw_only=True):
    """Counts by event, one for each of `times`, the moments at which spans of `seconds` begin."""

    span: SpanName
    seconds: int
    times: list[datetime]
    counts: dict[str, list[int]]

    @property
    def totals(self) -> dict[str, int]:
        """The sum of each event."""
        return {event: sum(counts) for event, counts in self.counts.items()}


async def activity_series(connection: Connection, span: SpanName, now: datetime) -> ActivitySeries:
    """Read the counts of a span of time that ends now; spans without any event count as none."""
    length, every = _LENGTHS[span]
    first = datetime.fromtimestamp(
        (now - length).timestamp() // every.total_seconds() * every.total_seconds(), now.tzinfo
    )
    times = [first + number * every for number in range(length // every + 1)]
    found = {(row.begins, row.event): row.count for row in await read_activity(connection, first, every)}
    return ActivitySeries(
        span=span,
        seconds=int(every.total_seconds()),
        times=times,
        counts={event: [found.get((begins, event), 0) for begins in times] for event in EVENTS},
    )
