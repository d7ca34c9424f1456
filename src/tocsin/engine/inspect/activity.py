"""What was accepted, sent, failed and skipped over time, and how long it took until it was sent."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Literal, TypeAlias

import msgspec

from tocsin.domain.delivery.latency import quantile
from tocsin.store.health.activity import read_activity
from tocsin.store.health.latency import Measure, read_latencies
from tocsin.store.pool import Connection

SpanName: TypeAlias = Literal["1h", "6h", "24h", "7d"]
EVENTS = ("accepted", "sent", "failed", "skipped")
QUANTILES: Mapping[str, float] = MappingProxyType({"p50": 0.5, "p95": 0.95, "p99": 0.99})
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


async def activity_series(connection: Connection, span: SpanName, now: datetime) -> ActivitySeries:
    """Read the counts of a span of time that ends now; spans without any event count as none."""
    times, every = _times(span, now)
    found = {(row.begins, row.event): row.count for row in await read_activity(connection, times[0], every)}
    return ActivitySeries(
        span=span,
        seconds=int(every.total_seconds()),
        times=times,
        counts={event: [found.get((begins, event), 0) for begins in times] for event in EVENTS},
    )


async def latency_series(
    connection: Connection, span: SpanName, measure: Measure, now: datetime
) -> LatencySeries:
    """Read the percentiles of a span of time that ends now."""
    times, every = _times(span, now)
    histograms: defaultdict[datetime, Counter[int]] = defaultdict(Counter)
    whole: Counter[int] = Counter()
    for row in await read_latencies(connection, measure, times[0], every):
        histograms[row.begins][row.bucket] += row.count
        whole[row.bucket] += row.count
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
