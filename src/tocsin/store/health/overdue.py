"""Finds due deliveries that nobody has claimed."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

import msgspec

from tocsin.store.pool import Connection


class Overdue(msgspec.Struct, frozen=True, kw_only=True):
    """The overdue deliveries of one lane: how many, up to a number, and the one that waits the longest."""

    lane: str
    count: int
    oldest: UUID
    due_at: datetime


# Each lane is one stretch of the due index, read from its head. A held delivery has no due time,
# and one under a live lease is being sent.
OVERDUE = """
select given.lane, late.count, late.oldest, late.due_at
from unnest($1::text[]) as given (lane)
cross join lateral (
    select
        count(*) as count,
        (array_agg(waiting.id order by waiting.due_at, waiting.id))[1] as oldest,
        min(waiting.due_at) as due_at
    from (
        select id, due_at
        from deliveries
        where lane = given.lane
            and state in ('scheduled', 'pending', 'retrying')
            and due_at <= $2
            and (leased_until is null or leased_until <= $3)
        order by lane, due_at, id
        limit $4
    ) as waiting
) as late
where late.count > 0
"""

WAKE = "select pg_notify(current_schema() || '_due', '')"


async def find_overdue(
    connection: Connection, lanes: Sequence[str], *, due_before: datetime, now: datetime, most: int
) -> list[Overdue]:
    """Find what was due before a time and is not under lease, by lane."""
    return [Overdue(**row) for row in await connection.fetch(OVERDUE, lanes, due_before, now, most)]


async def wake(connection: Connection) -> None:
    """Wake every lane of every worker."""
    await connection.execute(WAKE)
