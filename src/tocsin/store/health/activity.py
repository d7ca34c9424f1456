"""Counts of what was accepted, skipped, sent and failed, by minute."""

from collections.abc import Mapping
from datetime import datetime, timedelta

import msgspec

from tocsin.store.pool import Connection
from tocsin.store.rows import fetch_all


class ActivityRow(msgspec.Struct, frozen=True, kw_only=True):
    """How often an event happened in the span of time that begins at a moment.

    The minutes of a span that are over, and so are counted for good, have a row of their own.
    """

    begins: datetime
    is_over: bool
    event: str
    count: int


# Sorted, so that two processes never lock the same rows crosswise.
COUNT = """
insert into activity_counts as counted (minute, event, count)
select date_trunc('minute', clock_timestamp()), event, count
from unnest($1::text[], $2::bigint[]) as given (event, count)
order by event
on conflict (minute, event) do update
set count = counted.count + excluded.count
"""

# Attempts are counted by provider and code already. One that was deferred did not fail.
READ = """
select
    date_bin($2::interval, minute, 'epoch'::timestamptz) as begins,
    minute < $3 as is_over,
    event,
    sum(count)::bigint as count
from (
    select minute, event, count
    from activity_counts
    where minute >= $1
    union all
    select minute, case outcome when 'sent' then 'sent' else 'failed' end, count
    from provider_counts
    where minute >= $1 and outcome <> 'defer'
) as counted
group by 1, 2, 3
order by 1, 2, 3
"""


async def count_activity(connection: Connection, counts: Mapping[str, int]) -> None:
    """Add events to the minute at hand."""
    await connection.execute(COUNT, list(counts), list(counts.values()))


async def read_activity(
    connection: Connection, since: datetime, every: timedelta, over: datetime
) -> list[ActivityRow]:
    """Read what happened since a moment, in spans of a length; minutes before `over` are over."""
    return await fetch_all(connection, ActivityRow, READ, since, every, over)
