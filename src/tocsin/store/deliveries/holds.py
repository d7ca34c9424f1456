"""Releases held deliveries, cancels and reschedules what waits."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from tocsin.domain.catalog import CHANNELS, Channel
from tocsin.domain.delivery.held_by import UNKNOWN_TYPE
from tocsin.store.deliveries.context import IS_ORDER_BLOCKER
from tocsin.store.deliveries.digests import NOT_BEING_SENT
from tocsin.store.pool import Connection

MOST_AT_ONCE = 5_000


def distinct_waiting(column: str) -> str:
    """Build the query of the distinct values that a column has among waiting deliveries.

    It jumps from one value to the next in an index that starts with the column, however many rows share one.
    """
    return f"""
with recursive jumps as (
    select '' as value
    union all
    select (
        select deliveries.{column}
        from deliveries
        where deliveries.{column} > jumps.value and state in ('scheduled', 'pending', 'retrying')
        order by deliveries.{column}
        limit 1
    )
    from jumps
    where jumps.value is not null
)
select value
from jumps
where value <> ''
"""  # noqa: S608 - columns are named by this package alone


HELD_BY = distinct_waiting("held_by")
UNKNOWN_TYPES = distinct_waiting("unknown_type")

COUNT_HELD = """
select given.holder, held.count
from unnest($1::text[]) as given (holder)
cross join lateral (
    select count(*) as count
    from (
        select
        from deliveries
        where held_by = given.holder
            and state in ('scheduled', 'pending', 'retrying')
            and channel = any($3::text[])
        limit $2
    ) as waiting
) as held
"""

# What is released is `pending`: for those behind it in its group it is due, whatever their clocks say.
# One holder at a time: with several the planner walks all deliveries by their ids, past those long sent.
RELEASE = """
update deliveries
set due_at = $2, held_by = null, state = case when state = 'scheduled' then 'pending' else state end
where id in (
    select id
    from deliveries
    where held_by = $1
        and state in ('scheduled', 'pending', 'retrying')
        and channel = any($4::text[])
    order by id
    limit $3
    for update skip locked
)
"""

# One that was given a time since it was held keeps that.
RELEASE_TYPE = """
update deliveries
set due_at = $2, unknown_type = null, state = case when state = 'scheduled' then 'pending' else state end
where id in (
    select id
    from deliveries
    where unknown_type = $1
        and state in ('scheduled', 'pending', 'retrying')
        and due_at = 'infinity'
        and channel = any($4::text[])
    order by id
    limit $3
    for update skip locked
)
"""

# Of each ordering group, the earliest held delivery of each device is released, unless one before it is still
# due or retried. The first without a device blocks all behind it, so nothing behind it is read. Rows that
# another worker releases at this moment are skipped, to avoid deadlocks. The limits keep each step one index
# look-up; without them, or with an equality on held_by, the planner reads all that waits, and it does so
# while the tables are new.
RELEASE_NEXT = f"""
with earliest as materialized (
    select groups.ordering_key, first.id, first.device_id, first.accept_order
    from unnest($1::text[]) as groups (ordering_key)
    cross join lateral (
        select distinct on (waiting.device_id) waiting.id, waiting.device_id, waiting.accept_order
        from (
            select id, device_id, accept_order
            from deliveries
            where deliveries.ordering_key = groups.ordering_key
                and state in ('scheduled', 'pending', 'retrying')
                and coalesce(held_by, '') = 'order'
                and accept_order <= coalesce((
                    select accept_order
                    from deliveries
                    where deliveries.ordering_key = groups.ordering_key
                        and state in ('scheduled', 'pending', 'retrying')
                        and coalesce(held_by, '') = 'order'
                        and device_id is null
                    order by accept_order
                    limit 1
                ), 9223372036854775807)
            order by accept_order
            limit 10000
        ) as waiting
        order by waiting.device_id, waiting.accept_order
    ) as first
),
unblocked as materialized (
    select earliest.id
    from earliest
    where (
        select true
        from deliveries as earlier
        where earlier.ordering_key = earliest.ordering_key
            and earlier.accept_order < earliest.accept_order
            and {IS_ORDER_BLOCKER}
            and (earlier.device_id is null or earlier.device_id = earliest.device_id)
        limit 1
    ) is null
)
update deliveries
set due_at = $2, held_by = null, state = case when state = 'scheduled' then 'pending' else state end
where id in (
    select held.id
    from unblocked
    cross join lateral (
        select id
        from deliveries
        where deliveries.id = unblocked.id and coalesce(held_by, '') = 'order'
        limit 1
        for update skip locked
    ) as held
)
"""  # noqa: S608 - made of constants

KEYS_IN_ORDER = """
select distinct ordering_key
from (
    select ordering_key
    from deliveries
    where ordering_key > $1 and held_by = 'order' and state in ('scheduled', 'pending', 'retrying')
    order by ordering_key
    limit 5000
) as stretch
order by ordering_key
"""

# A delivery under lease is on its way and cannot be cancelled, nor can the member of a digest that is. If
# that attempt fails, the mark on the notification keeps it from being tried again, as it does with what a
# chunk of a broadcast stores at this moment.
CANCEL = f"""
with marked as (
    update notifications
    set cancelled_at = coalesce(cancelled_at, $2)
    where id = $1
),
stopped as (
    update broadcasts
    set state = 'cancelled', position = '', waiting_for = null, finished_at = $2
    where notification_id = $1 and state = 'expanding'
)
update deliveries as d
set state = 'cancelled', settled_at = $2, held_by = null
where d.notification_id = $1
    and d.state in ('scheduled', 'pending', 'retrying')
    and {NOT_BEING_SENT}
returning d.id
"""  # noqa: S608 - made of constants

# A time to live begins when a notification can first fall due, so it moves along.
# A notification with a time of its own leaves its digest, unless that is being sent. The people whom a
# broadcast has not reached yet follow at that time.
RESCHEDULE = f"""
with moved as (
    update deliveries as d
    set due_at = $3, state = 'scheduled', held_by = null, unknown_type = null, digest_id = null
    where notification_id = $1
        and state in ('scheduled', 'pending')
        and attempts = 0
        and {NOT_BEING_SENT}
    returning id
),
postponed as (
    update broadcasts
    set next_at = $3
    where notification_id = $1 and state = 'expanding'
    returning notification_id
),
retimed as (
    update notifications
    set send_at = $3,
        send_at_local = null,
        expires_at = $3 + (
            expires_at - greatest(
                accepted_at,
                coalesce(send_at, (send_at_local at time zone 'UTC') - interval '14 hours')
            )
        )
    where id = $1 and (exists (select from moved) or exists (select from postponed))
)
select id
from moved
"""  # noqa: S608 - made of constants


async def held_by(connection: Connection) -> list[str]:
    """List what holds deliveries at present."""
    holders = [row["value"] for row in await connection.fetch(HELD_BY)]
    return holders + [UNKNOWN_TYPE + row["value"] for row in await connection.fetch(UNKNOWN_TYPES)]


async def count_held(
    connection: Connection, holders: Sequence[str], most: int, channels: Sequence[Channel] = CHANNELS
) -> dict[str, int]:
    """Count what each of some holders holds of some channels, up to a number."""
    rows = await connection.fetch(COUNT_HELD, holders, most, channels)
    return {row["holder"]: row["count"] for row in rows}


async def release(
    connection: Connection,
    holder: str,
    now: datetime,
    *,
    limit: int = MOST_AT_ONCE,
    channels: Sequence[Channel] = CHANNELS,
) -> int:
    """Release what one holder holds of some channels, at most `limit`; return how many."""
    statement = RELEASE_TYPE if holder.startswith(UNKNOWN_TYPE) else RELEASE
    status: str = await connection.execute(statement, holder.removeprefix(UNKNOWN_TYPE), now, limit, channels)
    return int(status.rpartition(" ")[2])


async def release_next(connection: Connection, ordering_keys: Sequence[str], now: datetime) -> int:
    """Release the next delivery of each ordering group that nothing blocks any more; return how many."""
    status: str = await connection.execute(RELEASE_NEXT, ordering_keys, now)
    return int(status.rpartition(" ")[2])


async def keys_in_order(connection: Connection, after: str) -> list[str]:
    """List ordering keys that have a held delivery, after cursor `after`."""
    return [row["ordering_key"] for row in await connection.fetch(KEYS_IN_ORDER, after)]


async def cancel(connection: Connection, notification_id: UUID, now: datetime) -> int:
    """Cancel the deliveries of a notification that have not left; return how many."""
    return len(await connection.fetch(CANCEL, notification_id, now))


async def reschedule(connection: Connection, notification_id: UUID, send_at: datetime, now: datetime) -> int:
    """Move the deliveries of a notification that were never tried to another time; return how many."""
    return len(await connection.fetch(RESCHEDULE, notification_id, now, send_at))
