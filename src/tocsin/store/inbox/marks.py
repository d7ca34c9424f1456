"""What people do with the items of their inbox; repeating it changes nothing."""

from collections.abc import Mapping
from datetime import datetime
from typing import Literal, TypeAlias
from uuid import UUID

from tocsin.store.inbox.items import COLUMNS, ItemRow
from tocsin.store.inbox.notices import Notice, notify
from tocsin.store.pool import Connection
from tocsin.store.rows import fetch_one

Mark: TypeAlias = Literal["read", "unread", "archive", "unarchive"]
BulkMark: TypeAlias = Literal["seen", "read"]
BATCH = 1_000

_MARK = """
update inbox_items
set {change}
where id = $2 and user_id = $1 and {differs} and $3::timestamptz is not null
returning {columns}
"""


def _mark(change: str, differs: str) -> str:
    return _MARK.format(change=change, differs=differs, columns=COLUMNS)


# What somebody read or put away they have seen.
READ = _mark("read_at = $3, seen_at = coalesce(seen_at, $3)", "read_at is null")
UNREAD = _mark("read_at = null", "read_at is not null")
ARCHIVE = _mark("archived_at = $3, seen_at = coalesce(seen_at, $3)", "archived_at is null")
UNARCHIVE = _mark("archived_at = null", "archived_at is not null")
_MARKS: Mapping[Mark, str] = {"read": READ, "unread": UNREAD, "archive": ARCHIVE, "unarchive": UNARCHIVE}

GET = f"""
select {COLUMNS}
from inbox_items
where id = $2 and user_id = $1
"""  # noqa: S608 - made of constants

NEWEST = """
select id
from inbox_items
where user_id = $1
order by user_id desc, id desc
limit 1
"""

# Locked in the order of their ids: two tabs may ask for the same at the same time.
_MARK_ALL = """
with own as materialized (
    select id
    from inbox_items
    where user_id = $1 and id <= $2 and {column} is null and archived_at is null
        and ($3::text is null or category = $3)
    order by user_id, id
    limit $5
    for update
)
update inbox_items
set {change}
from own
where inbox_items.id = own.id
"""
SEE_ALL = _MARK_ALL.format(column="seen_at", change="seen_at = $4::timestamptz")
READ_ALL = _MARK_ALL.format(
    column="read_at", change="read_at = $4::timestamptz, seen_at = coalesce(seen_at, $4)"
)
_MARKS_ALL: Mapping[BulkMark, str] = {"seen": SEE_ALL, "read": READ_ALL}


async def mark(
    connection: Connection, user_id: str, item_id: UUID, change: Mark, now: datetime
) -> ItemRow | None:
    """Change the state of an item of a person and return it; None if they have no such item."""
    async with connection.transaction():
        changed = await fetch_one(connection, ItemRow, _MARKS[change], user_id, item_id, now)
        if changed is not None:
            await notify(connection, [Notice("changed", user_id, item_id)])
    return changed or await fetch_one(connection, ItemRow, GET, user_id, item_id)


async def mark_all(
    connection: Connection,
    user_id: str,
    change: BulkMark,
    now: datetime,
    *,
    up_to: UUID | None = None,
    category: str | None = None,
) -> int:
    """Mark all items of a person up to an id, or all there are; return how many changed.

    However many there are, each transaction changes a thousand at most.
    """
    newest: UUID | None = await connection.fetchval(NEWEST, user_id)
    if newest is None:
        return 0
    last = min(up_to, newest) if up_to else newest
    total, count = 0, BATCH
    while count == BATCH:
        async with connection.transaction():
            status = await connection.execute(_MARKS_ALL[change], user_id, last, category, now, BATCH)
            count = int(status.rpartition(" ")[2])
            if count:
                await notify(connection, [Notice(change, user_id, last, category, now)])
        total += count
    return total
