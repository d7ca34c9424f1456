"""Histograms of the time until deliveries were sent, by minute."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from tocsin.store.pool import Connection
from tocsin.store.rows import fetch_all, transpose

Measure: TypeAlias = Literal["accepted", "due"]
"""What a time is counted from: from acceptance, or from when the delivery was due, at first or again."""


class LatencyBucket(NamedTuple):
    """What is counted: deliveries that were sent after a time in a bucket, by a measure."""

    measure: Measure
    bucket: int


class LatencyRow(msgspec.Struct, frozen=True, kw_only=True):
    """How many deliveries of a bucket were sent in the span of time that begins at a moment.

    The minutes of a span that are over, and so are counted for good, have a row of their own.
    """

    begins: datetime
    is_over: bool
    bucket: int
    count: int


# Sorted, so that two workers never lock the same rows crosswise.
COUNT = """
insert into latency_counts as counted (minute, measure, bucket, count)
select date_trunc('minute', clock_timestamp()), measure, bucket, count
from unnest($1::text[], $2::smallint[], $3::bigint[]) as given (measure, bucket, count)
order by measure, bucket
on conflict (measure, minute, bucket) do update
set count = counted.count + excluded.count
"""

READ = """
select
    date_bin($2::interval, minute, 'epoch'::timestamptz) as begins,
    minute < $3 as is_over,
    bucket,
    sum(count)::bigint as count
from latency_counts
where measure = $4 and minute >= $1
group by 1, 2, 3
order by 1, 2, 3
"""


async def count_latencies(connection: Connection, counts: Mapping[LatencyBucket, int]) -> None:
    """Add sent deliveries to the minute at hand."""
    await connection.execute(COUNT, *transpose(counts, LatencyBucket._fields), list(counts.values()))


async def read_latencies(
    connection: Connection, measure: Measure, since: datetime, every: timedelta, over: datetime
) -> list[LatencyRow]:
    """Read the histograms of a measure since a moment, in spans of a length; those before `over` are over."""
    return await fetch_all(connection, LatencyRow, READ, since, every, over, measure)
