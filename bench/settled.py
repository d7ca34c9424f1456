"""Waiting until Tocsin has settled its deliveries, at next to no cost to its database."""

from datetime import UTC, datetime
from typing import TypeAlias
from uuid import UUID

import asyncpg

from bench.broker import drained
from bench.process import ProgramFailedError

# The order makes the planner take the due index, which has no settled row; by its statistics of a
# moment with many waiting rows it would rather scan the table, settled rows and all. It goes on where the
# last one was found: before it are the entries of all that was settled, until vacuum removes them.
WAITING = """
select lane, due_at, id
from deliveries
where state in ('scheduled', 'pending', 'retrying') and (lane, due_at, id) >= ($1, $2, $3)
order by lane, due_at, id
limit 1
"""
Position: TypeAlias = tuple[str, datetime, UUID]
START: Position = "", datetime.min.replace(tzinfo=UTC), UUID(int=0)
# Not merged with the order above, or the planner would look through all rows of the notification.
WAITING_OF = """
select true
from (
    select notification_id
    from deliveries
    where state in ('scheduled', 'pending', 'retrying')
    order by lane, due_at, id
    offset 0
) as waiting
where notification_id = $1
limit 1
"""
UNSENT = "select count(*) from deliveries where state <> 'sent'"
UNSENT_OF = "select count(*) from deliveries where notification_id = $1 and state <> 'sent'"


class Waiting:
    """Looks for deliveries that wait, from where the last one was found."""

    def __init__(self, books: asyncpg.Connection) -> None:
        self._books = books
        self._first: Position = START

    async def any(self) -> bool:
        """Return whether any delivery still waits."""
        found = await self._books.fetchrow(WAITING, *self._first)
        if found is None and self._first is not START:
            # One before it may have become due again.
            found = await self._books.fetchrow(WAITING, *START)
        self._first = START if found is None else tuple(found)
        return found is not None


async def is_waiting(books: asyncpg.Connection) -> bool:
    """Return whether any delivery still waits."""
    return await Waiting(books).any()


async def is_waiting_of(books: asyncpg.Connection, notification_id: UUID) -> bool:
    """Return whether any delivery of a notification still waits."""
    return bool(await books.fetchval(WAITING_OF, notification_id))


async def all_settled(books: asyncpg.Connection) -> None:
    """Wait until no delivery waits any more."""
    await drained(Waiting(books).any)


async def check_sent(books: asyncpg.Connection, notification_id: UUID | None = None) -> None:
    """Raise if a delivery, or one of a notification, was settled without being sent; it scans them all."""
    unsent = await (books.fetchval(UNSENT_OF, notification_id) if notification_id else books.fetchval(UNSENT))
    if unsent:
        raise ProgramFailedError(f"Tocsin counts {unsent} deliveries that were settled without being sent")
