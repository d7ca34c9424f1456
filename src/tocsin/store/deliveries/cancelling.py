"""Cancels what waits: of many notifications, or what a toggle holds."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from tocsin.domain.decide import Step
from tocsin.domain.delivery.states import WAITING
from tocsin.store.deliveries.digests import NOT_BEING_SENT, end
from tocsin.store.deliveries.settle import encode_steps
from tocsin.store.pool import Connection


class WaitingCount(NamedTuple):
    """How many deliveries of a notification wait, and how many of those are being sent."""

    notification_id: UUID
    waiting: int
    in_flight: int


# The states come as an argument, so that the planner looks up the deliveries of each notification.
COUNT_WAITING = """
select given.id as notification_id, counted.waiting, counted.in_flight
from unnest($1::uuid[]) as given (id)
cross join lateral (
    select count(*) as waiting, count(*) filter (where d.leased_until > $2) as in_flight
    from deliveries as d
    where d.notification_id = given.id and d.state = any($3::text[])
) as counted
where counted.waiting > 0
order by given.id desc
"""

# What is being sent is not cancelled; the mark keeps it from being tried again if it fails.
MARK = """
with stopped as (
    update broadcasts
    set state = 'cancelled', position = '', waiting_for = null, finished_at = $2
    where notification_id = any($1::uuid[]) and state = 'expanding'
)
update notifications
set cancelled_at = coalesce(cancelled_at, $2)
where id in (
    select id
    from notifications
    where id = any($1::uuid[])
    order by id
    for update
)
"""

_CANCEL = """
update deliveries
set state = 'cancelled',
    reason = 'cancelled_by_operator',
    settled_at = $2,
    held_by = null,
    lease = null,
    leased_until = null,
    decisions = coalesce(merge_decisions(decisions, $4::jsonb), $4::jsonb)
where id in ({waiting})
returning digest_id
"""

# Rows that are locked at this moment are being claimed or settled: they are skipped, to avoid deadlocks. The
# limit keeps it a look-up for each notification.
CANCEL_MANY = _CANCEL.format(
    waiting=f"""
    select own.id
    from unnest($1::uuid[]) as given (id)
    cross join lateral (
        select d.id
        from deliveries as d
        where d.notification_id = given.id and d.state = any($3::text[]) and {NOT_BEING_SENT}
        limit 1000000
        for update skip locked
    ) as own
"""  # noqa: S608 - made of constants
)

CANCEL_HELD = _CANCEL.format(
    waiting="""
    select id
    from deliveries
    where held_by = $1 and state in ('scheduled', 'pending', 'retrying')
    order by id
    limit $3
    for update skip locked
"""
)


async def count_waiting(
    connection: Connection, notification_ids: Sequence[UUID], now: datetime
) -> list[WaitingCount]:
    """Count what waits of each notification, newest first, without those of which nothing waits."""
    rows = await connection.fetch(COUNT_WAITING, notification_ids, now, WAITING)
    return [WaitingCount(*row) for row in rows]


async def cancel_many(
    connection: Connection, notification_ids: Sequence[UUID], step: Step, now: datetime
) -> int:
    """Cancel what waits of notifications and is not being sent; return how many deliveries."""
    await connection.execute(MARK, notification_ids, now)
    status: str = await connection.execute(CANCEL_MANY, notification_ids, now, WAITING, encode_steps([step]))
    return int(status.rpartition(" ")[2])


async def cancel_held(connection: Connection, holder: str, step: Step, now: datetime, limit: int) -> int:
    """Cancel what one holder holds, at most `limit`; return how many deliveries.

    The members of a digest end with the delivery that carries it. Runs in a transaction.
    """
    rows = await connection.fetch(CANCEL_HELD, holder, now, limit, encode_steps([step]))
    if digest_ids := sorted({row["digest_id"] for row in rows if row["digest_id"] is not None}):
        await end(connection, digest_ids, now)
    return len(rows)
