"""Counts what waits in each lane, and what leaves in each hour."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec

from tocsin.store.pool import Connection
from tocsin.store.rows import fetch_all


class LaneDepth(msgspec.Struct, frozen=True, kw_only=True):
    """What waits in a lane, each counted up to a number: what is due, what is due later, what is held."""

    lane: str
    due: int
    oldest_due_at: datetime | None
    later: int
    held: int


class Bucket(NamedTuple):
    """The deliveries of a lane that are due within an hour from `begins` on."""

    lane: str
    begins: datetime


class DrawnCount(msgspec.Struct, frozen=True, kw_only=True):
    """How many of the deliveries of an hour that were drawn have a type and are for people of one time zone.

    The zone is known by the device that was used last, the directory, and the offset there, as far as any is.
    """

    lane: str
    begins: datetime
    type: str | None
    device_timezone: str | None
    timezone: str | None
    gmt_offset_seconds: int | None
    count: int


# Each lane is one stretch of the due index, and each count reads a part of it without the rows themselves.
DEPTHS = """
select given.lane, due.count as due, due.oldest_due_at, later.count as later, held.count as held
from unnest($1::text[]) as given (lane)
cross join lateral (
    select count(*) as count, min(due_at) as oldest_due_at
    from (
        select due_at
        from deliveries
        where lane = given.lane and state in ('scheduled', 'pending', 'retrying') and due_at <= $2
        order by lane, due_at
        limit $3
    ) as waiting
) as due
cross join lateral (
    select count(*) as count
    from (
        select
        from deliveries
        where lane = given.lane
            and state in ('scheduled', 'pending', 'retrying')
            and due_at > $2
            and due_at < 'infinity'
        order by lane, due_at
        limit $3
    ) as waiting
) as later
cross join lateral (
    select count(*) as count
    from (
        select
        from deliveries
        where lane = given.lane and state in ('scheduled', 'pending', 'retrying') and due_at = 'infinity'
        order by lane, due_at
        limit $3
    ) as waiting
) as held
"""

LATER = """
select coalesce(sum(waiting.count), 0)
from unnest($1::text[]) as given (lane)
cross join lateral (
    select count(*) as count
    from (
        select
        from deliveries
        where lane = given.lane
            and state in ('scheduled', 'pending', 'retrying')
            and due_at > $2
            and due_at < 'infinity'
        order by lane, due_at
        limit $3
    ) as own
) as waiting
"""

_IN_HOUR = """
        select id
        from deliveries
        where lane = given.lane
            and state in ('scheduled', 'pending', 'retrying')
            and due_at >= greatest(given.begins, $3)
            and due_at < given.begins + interval '1 hour'
        order by lane, due_at
        limit $4
    """

IN_HOURS = f"""
select given.lane, given.begins, waiting.count
from unnest($1::text[], $2::timestamptz[]) as given (lane, begins)
cross join lateral (
    select count(*) as count
    from ({_IN_HOUR}) as own
) as waiting
where waiting.count > 0
"""  # noqa: S608 - made of constants

# One of `every` is drawn by the hash of its id, so that only these are read themselves. A digest has the type
# of its members, but no notification. The zone is that of the claim; the order of devices is that of their
# index by owner, and of no other.
DRAWN_IN_HOURS = f"""
select
    given.lane, given.begins, coalesce(notified.type, collected.type) as type,
    used_last.timezone as device_timezone, person.timezone, person.gmt_offset_seconds, count(*) as count
from unnest($1::text[], $2::timestamptz[], $5::integer[]) as given (lane, begins, every)
cross join lateral (
    select own.id
    from ({_IN_HOUR}) as own
    where (uuid_hash(own.id) & 2147483647) % given.every = 0
) as drawn
cross join lateral (
    select notification_id, digest_id, user_id
    from deliveries
    where deliveries.id = drawn.id
    limit 1
) as waiting
left join lateral (
    select type
    from notifications
    where notifications.id = waiting.notification_id
    limit 1
) as notified on true
left join lateral (
    select type
    from digests
    where digests.id = waiting.digest_id and waiting.notification_id is null
    limit 1
) as collected on true
left join lateral (
    select users.timezone, users.gmt_offset_seconds
    from users
    where users.user_id = waiting.user_id
    limit 1
) as person on true
left join lateral (
    select own.timezone
    from devices as own
    where own.user_id = waiting.user_id
        and own.provider <> 'webhook'
        and own.retired_at is null
        and own.push_enabled
    order by own.user_id, own.retired_at desc nulls first, own.last_seen_at desc, own.id desc
    limit 1
) as used_last on true
group by 1, 2, 3, 4, 5, 6
"""  # noqa: S608 - made of constants


# Only of the last seconds: before them lie the entries of what was settled since the index was last cleaned.
# What is under lease is at the front; a worker has no more than some thousands of these.
UNCLAIMED = """
select coalesce(sum(waiting.count), 0)
from unnest($1::text[]) as given (lane)
cross join lateral (
    select count(*) as count
    from (
        select
        from deliveries
        where lane = given.lane
            and state in ('scheduled', 'pending', 'retrying')
            and due_at > $2
            and due_at <= $3
            and lease is null
        order by lane, due_at, id
        limit $4
    ) as head
) as waiting
"""
COUNTED_SECONDS = timedelta(seconds=10)


async def count_unclaimed(connection: Connection, lanes: Collection[str], now: datetime, most: int) -> int:
    """Count what fell due in some lanes in the last ten seconds and is not claimed, up to `most` in each."""
    counted = await connection.fetchval(UNCLAIMED, list(lanes), now - COUNTED_SECONDS, now, most)
    return int(counted)


async def depths(connection: Connection, lanes: Sequence[str], now: datetime, most: int) -> list[LaneDepth]:
    """Count what waits in each lane, up to a number."""
    return await fetch_all(connection, LaneDepth, DEPTHS, lanes, now, most)


async def count_later(connection: Connection, lanes: Sequence[str], after: datetime, most: int) -> int:
    """Count what is due after a time in some lanes, up to `most` in each."""
    return int(await connection.fetchval(LATER, lanes, after, most))


async def count_in_hours(
    connection: Connection, buckets: Sequence[Bucket], now: datetime, most: int
) -> dict[Bucket, int]:
    """Count what is due after now in each hour of each lane, up to a number; without those that are empty."""
    rows = await connection.fetch(IN_HOURS, *_columns(buckets), now + timedelta(microseconds=1), most)
    return {Bucket(row["lane"], row["begins"]): row["count"] for row in rows}


async def drawn_in_hours(
    connection: Connection, every: Mapping[Bucket, int], now: datetime, most: int
) -> list[DrawnCount]:
    """Count by type and zone one of `every` deliveries of each hour of each lane, out of the first `most`."""
    after = now + timedelta(microseconds=1)
    columns = (*_columns(list(every)), after, most, list(every.values()))
    return await fetch_all(connection, DrawnCount, DRAWN_IN_HOURS, *columns)


def _columns(buckets: Sequence[Bucket]) -> tuple[list[str], list[datetime]]:
    return [bucket.lane for bucket in buckets], [bucket.begins for bucket in buckets]
