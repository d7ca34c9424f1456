"""What was accepted, sent, failed and skipped over time, and how long it took until it was sent."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Generic, Literal, TypeAlias, TypeVar

import msgspec

from tocsin.domain.delivery.latency import quantile
from tocsin.store.health.activity import read_activity
from tocsin.store.health.latency import Measure, read_latencies
from tocsin.store.pool import Connection

K = TypeVar("K", str, int)
SpanName: TypeAlias = Literal["1h", "6h", "24h", "7d"]
EVENTS = ("accepted", "sent", "failed", "skipped")
QUANTILES: Mapping[str, float] = MappingProxyType({"p50": 0.5, "p95": 0.95, "p99": 0.99})
WRITTEN_WITHIN = timedelta(minutes=2)
"""Counts are added to the minute in which they are written, and a statement takes far less than this."""
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


class LatencySeries(msgspec.Struct, frozen=True, kw_only=True):
    """Percentiles in seconds: one for each of `times`, and `overall`; None where nothing was sent."""

    measure: Measure
    times: list[datetime]
    quantiles: dict[str, list[float | None]]
    overall: dict[str, float | None]


class KeptCounts(msgspec.Struct, Generic[K], frozen=True):
    """Counts of the minutes before `until`, by the span of time and what is counted; never changed in place.

    So readings of several viewers at once do not count anything twice: each adds to what it began with.
    """

    until: datetime | None = None
    counts: Counter[tuple[datetime, K]] = msgspec.field(default_factory=Counter)

    def since(self, first: datetime, over: datetime) -> "KeptCounts[K]":
        """Return them without spans that began before the first one.

        Nothing is kept if the clock was set back meanwhile: minutes that seemed to be over were not.
        """
        if self.until is None or not first < self.until <= over:
            return KeptCounts()
        return KeptCounts(
            self.until, Counter({key: count for key, count in self.counts.items() if key[0] >= first})
        )

    def added(
        self, read: Sequence[tuple[bool, tuple[datetime, K], int]], over: datetime
    ) -> "tuple[KeptCounts[K], Counter[tuple[datetime, K]]]":
        """Return them with what was read of minutes that are over, and all counts."""
        counts, found = Counter(self.counts), Counter(self.counts)
        for is_over, key, count in read:
            found[key] += count
            if is_over:
                counts[key] += count
        return KeptCounts(over, counts), found


class CountHistory:
    """Reads series, and keeps the counts of minutes that are over: they are read once in a process.

    However long a span is, what is read again is the last minutes, and what came since the last reading.
    """

    def __init__(self) -> None:
        self._activity: dict[SpanName, KeptCounts[str]] = {}
        self._latency: dict[tuple[SpanName, Measure], KeptCounts[int]] = {}

    async def activity_series(self, connection: Connection, span: SpanName, now: datetime) -> ActivitySeries:
        """Read the counts of a span of time that ends now; spans without any event count as none."""
        times, every = _times(span, now)
        over = _over(now)
        kept = self._activity.get(span, KeptCounts[str]()).since(times[0], over)
        rows = await read_activity(connection, kept.until or times[0], every, over)
        read = [(row.is_over, (row.begins, row.event), row.count) for row in rows]
        self._activity[span], found = kept.added(read, over)
        return ActivitySeries(
            span=span,
            seconds=int(every.total_seconds()),
            times=times,
            counts={event: [found[begins, event] for begins in times] for event in EVENTS},
        )

    async def latency_series(
        self, connection: Connection, span: SpanName, measure: Measure, now: datetime
    ) -> LatencySeries:
        """Read the percentiles of a span of time that ends now."""
        times, every = _times(span, now)
        over = _over(now)
        kept = self._latency.get((span, measure), KeptCounts[int]()).since(times[0], over)
        rows = await read_latencies(connection, measure, kept.until or times[0], every, over)
        read = [(row.is_over, (row.begins, row.bucket), row.count) for row in rows]
        self._latency[span, measure], found = kept.added(read, over)
        return _latency_series(measure, times, found)


def _latency_series(
    measure: Measure, times: list[datetime], found: Mapping[tuple[datetime, int], int]
) -> LatencySeries:
    histograms: defaultdict[datetime, Counter[int]] = defaultdict(Counter)
    whole: Counter[int] = Counter()
    for (begins, bucket), count in found.items():
        histograms[begins][bucket] += count
        whole[bucket] += count
    return LatencySeries(
        measure=measure,
        times=times,
        quantiles={
            name: [quantile(histograms[begins], share) if begins in histograms else None for begins in times]
            for name, share in QUANTILES.items()
        },
        overall={name: quantile(whole, share) for name, share in QUANTILES.items()},
    )


def _times(span: SpanName, now: datetime) -> tuple[list[datetime], timedelta]:
    """Return when the parts of a span of time begin that ends now, and how long each is."""
    length, every = _LENGTHS[span]
    first = datetime.fromtimestamp(
        (now - length).timestamp() // every.total_seconds() * every.total_seconds(), now.tzinfo
    )
    return [first + number * every for number in range(length // every + 1)], every


def _over(now: datetime) -> datetime:
    """Return the minute before which minutes are over: nobody counts in them any more."""
    return now.replace(second=0, microsecond=0) - WRITTEN_WITHIN
