"""Series of counts: what is over is read once, and what is shown is what is stored."""

from datetime import UTC, datetime, timedelta
from typing import get_args

import pytest

from tocsin.engine.inspect.activity import ActivitySeries, CountHistory, LatencySeries, SpanName
from tocsin.store.pool import Connection, Pool

NOW = datetime(2026, 3, 8, 15, 37, 21, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
SPANS: tuple[SpanName, ...] = get_args(SpanName)

ADD = """
with activity as (
    insert into activity_counts as counted (minute, event, count)
    select date_trunc('minute', moment), 'accepted', $2
    from unnest($1::timestamptz[]) as moment
    on conflict (minute, event) do update set count = counted.count + excluded.count
),
attempts as (
    insert into provider_counts as counted (minute, provider, outcome, code, count)
    select date_trunc('minute', moment), 'fcm', 'sent', '', $2
    from unnest($1::timestamptz[]) as moment
    on conflict (minute, provider, outcome, code) do update set count = counted.count + excluded.count
)
insert into latency_counts as counted (minute, measure, bucket, count)
select date_trunc('minute', moment), 'accepted', extract(minute from moment)::integer % 20, $2
from unnest($1::timestamptz[]) as moment
on conflict (measure, minute, bucket) do update set count = counted.count + excluded.count
"""


async def read(
    history: CountHistory, connection: Connection, span: SpanName, now: datetime
) -> tuple[ActivitySeries, LatencySeries]:
    return (
        await history.activity_series(connection, span, now),
        await history.latency_series(connection, span, "accepted", now),
    )


@pytest.mark.parametrize("span", SPANS)
async def test_later_readings_show_what_a_first_one_would(pool: Pool, span: SpanName) -> None:
    history, now = CountHistory(), NOW
    async with pool.acquire() as connection:
        await connection.execute(ADD, [NOW - number * 7 * MINUTE for number in range(1_500)], 1)
        for step in (2, 2, 59, 58, 1, 120, 600, 7_300, 90_000, 2, 700_000, 2):
            now += timedelta(seconds=step)
            await connection.execute(ADD, [now - timedelta(seconds=1)], step)

            found = await read(history, connection, span, now)

            assert found == await read(CountHistory(), connection, span, now)
            assert found[0].counts["sent"][-2:] == found[0].counts["accepted"][-2:] != [0, 0]


@pytest.mark.parametrize("span", SPANS)
async def test_minutes_that_are_over_are_read_once(pool: Pool, span: SpanName) -> None:
    history = CountHistory()
    async with pool.acquire() as connection:
        await connection.execute(ADD, [NOW - number * MINUTE for number in range(40)], 1)
        first = await read(history, connection, span, NOW)
        await connection.execute("delete from activity_counts where minute < $1", NOW - 3 * MINUTE)
        await connection.execute("delete from provider_counts where minute < $1", NOW - 3 * MINUTE)
        await connection.execute("delete from latency_counts where minute < $1", NOW - 3 * MINUTE)

        assert await read(history, connection, span, NOW + timedelta(seconds=2)) == first
        totals = first[0].totals
        assert (totals["accepted"], totals["sent"]) == (40, 40)


async def test_a_clock_that_is_set_back_counts_nothing_twice_and_leaves_nothing_out(pool: Pool) -> None:
    history = CountHistory()
    async with pool.acquire() as connection:
        await connection.execute(ADD, [NOW - number * MINUTE for number in range(30)], 1)
        for minutes in (0, 60, 0, -10, -5, 2):
            now = NOW + minutes * MINUTE
            await connection.execute(ADD, [now], 1)

            found = await read(history, connection, "6h", now)

            assert found == await read(CountHistory(), connection, "6h", now)
