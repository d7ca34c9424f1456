"""Letting held deliveries go, taking back and moving what waits."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from tocsin.store.pool import Connection

MOST_AT_ONCE = 5_000

# Goes from holder to holder, however many each of them holds.
HELD_BY = """
with recursive holders as (
    (
        select held_by
        from deliveries
        where held_by is not null and state in ('scheduled', 'pending', 'retrying')
        order by held_by
        limit 1
    )
    union all
    select (
        select deliveries.held_by
        from deliveries
        where deliveries.held_by > holders.held_by and state in ('scheduled', 'pending', 'retrying')
        order by deliveries.held_by
        limit 1
    )
    from holders
    where holders.held_by is not null
)
select held_by
from holders
where held_by is not null
"""

# One holder at a time: with several the planner walks all deliveries by their ids, past those long sent.
RELEASE = """
update deliveries
set due_at = $2, held_by = null
where id in (
    select id
    from deliveries
    where held_by = $1 and state in ('scheduled', 'pending', 'retrying')
    order by id
    limit $3
    for update skip locked
)
"""

# The next of a row is the oldest notification that still waits, with all its devices. Whoever waits
# behind is let go only then. What another worker is letting go at this moment is left to it, so that two
# never wait for each other crosswise. The limits keep it one look for each row: without them, or with an
# equality on held_by, the planner reads all that waits, and it does so while the tables are new.
RELEASE_NEXT = """
update deliveries
set due_at = $2, held_by = null
where id in (
    select next.id
    from unnest($1::text[]) as keys (ordering_key)
    cross join lateral (
        select notification_id
        from deliveries
        where deliveries.ordering_key = keys.ordering_key
            and state in ('scheduled', 'pending', 'retrying')
        order by notification_id
        limit 1
    ) as head
    cross join lateral (
        select id
        from deliveries
        where deliveries.ordering_key = keys.ordering_key
            and deliveries.notification_id = head.notification_id
            and state in ('scheduled', 'pending', 'retrying')
            and coalesce(held_by, '') = 'order'
        limit 10000
        for update skip locked
    ) as next
)
"""

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

# A delivery under lease is on its way and cannot be taken back; if that attempt fails, the mark on the
# notification keeps it from being tried again.
CANCEL = """
with marked as (
    update notifications
    set cancelled_at = coalesce(cancelled_at, $2)
    where id = $1
)
update deliveries
set state = 'cancelled', settled_at = $2, held_by = null
where notification_id = $1
    and state in ('scheduled', 'pending', 'retrying')
    and (leased_until is null or leased_until <= $2)
returning id
"""

# A time to live begins when a notification can first fall due, so it moves along.
# What has a time of its own is not collected.
RESCHEDULE = """
with moved as (
    update deliveries
    set due_at = $2, state = 'scheduled', held_by = null, digest_key = null, digest_id = null
    where notification_id = $1
        and state in ('scheduled', 'pending')
        and attempts = 0
        and (leased_until is null or leased_until <= $3)
    returning id
),
retimed as (
    update notifications
    set send_at = $2,
        send_at_local = null,
        expires_at = $2 + (
            expires_at - greatest(
                accepted_at,
                coalesce(send_at, (send_at_local at time zone 'UTC') - interval '14 hours')
            )
        )
    where id = $1 and exists (select from moved)
)
select id
from moved
"""


async def held_by(connection: Connection) -> list[str]:
    """Name what holds deliveries at present."""
    return [row[0] for row in await connection.fetch(HELD_BY)]


async def release(connection: Connection, holder: str, now: datetime, limit: int | None = None) -> int:
    """Let go of what something holds, a bounded number at a time; tell how many."""
    most = MOST_AT_ONCE if limit is None else limit
    status: str = await connection.execute(RELEASE, holder, now, most)
    return int(status.rpartition(" ")[2])


async def release_next(connection: Connection, ordering_keys: Sequence[str], now: datetime) -> int:
    """Let the next of each row go, now that the one before it is settled; tell how many."""
    status: str = await connection.execute(RELEASE_NEXT, ordering_keys, now)
    return int(status.rpartition(" ")[2])


async def keys_in_order(connection: Connection, after: str) -> list[str]:
    """Name rows in which somebody waits behind another, the next ones after a name."""
    return [row[0] for row in await connection.fetch(KEYS_IN_ORDER, after)]


async def cancel(connection: Connection, notification_id: UUID, now: datetime) -> int:
    """Take back what has not left; tell how many deliveries that was."""
    return len(await connection.fetch(CANCEL, notification_id, now))


async def reschedule(connection: Connection, notification_id: UUID, send_at: datetime, now: datetime) -> int:
    """Move what was never tried to another time; tell how many deliveries that was."""
    return len(await connection.fetch(RESCHEDULE, notification_id, send_at, now))
