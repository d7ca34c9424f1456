"""Histograms of latency: added up by minute, and read by their index alone."""

from datetime import UTC, datetime, timedelta

from tests.store.plans import explain_kept, indexes, keep_plan, rows_read
from tocsin.store.health.latency import READ, LatencyBucket, count_latencies, read_latencies
from tocsin.store.pool import Pool

ADD_DAYS = """
insert into latency_counts (minute, measure, bucket, count)
select minute, measure, bucket, 1
from generate_series($1::timestamptz - interval '7 days', $1, '1 minute') as minute
cross join unnest(array['accepted', 'due']) as measure
cross join generate_series(10, 14) as bucket
"""


async def test_what_several_workers_count_is_added_up(pool: Pool) -> None:
    async with pool.acquire() as connection:
        counts = {
            LatencyBucket("due", 3): 2,
            LatencyBucket("accepted", 40): 5,
            LatencyBucket("accepted", 3): 1,
        }
        await count_latencies(connection, counts)
        await count_latencies(connection, {LatencyBucket("accepted", 40): 1})
        now = await pool.fetchval("select now()")
        since, week = now - timedelta(hours=1), timedelta(days=7)

        found = await read_latencies(connection, "accepted", since, week, since)

        [begins] = {row.begins for row in found}
        assert begins <= now < begins + week
        assert [(row.is_over, row.bucket, row.count) for row in found] == [(False, 3, 1), (False, 40, 6)]
        [row] = await read_latencies(connection, "due", since, week, now + timedelta(minutes=1))
        assert (row.is_over, row.count) == (True, 2)


async def test_an_hour_is_read_by_its_index_however_long_counts_are_kept(pool: Pool) -> None:
    now = datetime(2026, 3, 1, tzinfo=UTC)
    async with pool.acquire() as connection:
        await connection.execute(ADD_DAYS, now)
        await connection.execute("vacuum analyze latency_counts")
        arguments = (now - timedelta(hours=1), "00:01:00", now, "accepted")
        await keep_plan(connection, "latencies", READ, *arguments)

        plan = await explain_kept(connection, "latencies", *arguments)

        assert indexes(plan, "latency_counts") == {"latency_counts_pkey"}
        assert rows_read(plan, "latency_counts") <= 61 * 5
