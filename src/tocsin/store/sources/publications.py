"""Rows of outboxes that were published to some of their recipients: to whom, and to whom not yet."""

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from tocsin.store.pool import Connection

PUBLISHED_TO = """
select row_key, published
from publications
where outbox = $1 and row_key = any($2::uuid[])
"""

WAITING_FOR = """
select row_key, waiting
from publications
where outbox = $1 and row_key = any($2::uuid[]) and waiting && $3::uuid[]
"""

# A row that waits behind another is seen every minute; it is written again twice a day, for retention.
SAVE = """
insert into publications as known (outbox, row_key, published, waiting, updated_at)
values ($1, $2, $3, $4, $5)
on conflict (outbox, row_key) do update
set published = excluded.published, waiting = excluded.waiting, updated_at = excluded.updated_at
where known.published is distinct from excluded.published
    or known.waiting is distinct from excluded.waiting
    or known.updated_at < excluded.updated_at - interval '12 hours'
"""

FORGET = """
delete from publications
where outbox = $1 and row_key = any($2::uuid[])
"""


class Publication(NamedTuple):
    """One row of an outbox: the groups that it was published to, and those that it waits for."""

    row_key: UUID
    published: Collection[UUID]
    waiting: Collection[UUID]


async def published_to(
    connection: Connection, outbox: str, row_keys: Sequence[UUID]
) -> dict[UUID, frozenset[UUID]]:
    """Return the groups that rows were published to already, for rows of which any are known."""
    found = await connection.fetch(PUBLISHED_TO, outbox, row_keys)
    return {row["row_key"]: frozenset(row["published"]) for row in found}


async def waiting_for(
    connection: Connection, outbox: str, row_keys: Sequence[UUID], groups: Sequence[UUID]
) -> dict[UUID, list[UUID]]:
    """Return the groups that rows wait to be published to, for rows that wait for any of `groups`."""
    found = await connection.fetch(WAITING_FOR, outbox, row_keys, groups)
    return {row["row_key"]: row["waiting"] for row in found}


async def save(
    connection: Connection, outbox: str, publications: Iterable[Publication], now: datetime
) -> None:
    """Remember rows that were not published to everybody."""
    ordered = sorted(publications, key=lambda each: each.row_key)
    await connection.executemany(
        SAVE, [(outbox, each.row_key, sorted(each.published), sorted(each.waiting), now) for each in ordered]
    )


async def forget(connection: Connection, outbox: str, row_keys: Sequence[UUID]) -> None:
    """Forget rows that were published to everybody."""
    await connection.execute(FORGET, outbox, row_keys)
