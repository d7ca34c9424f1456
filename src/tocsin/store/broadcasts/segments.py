"""Segments: named lists of people, each uploaded as a whole.

An upload is stored batch by batch under an id of its own and becomes current in one step at its end. Until
then, and if it fails, the one before is what an intent finds.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

import msgspec

from tocsin.domain.errors import TocsinError
from tocsin.domain.ids import uuid7
from tocsin.store.pool import Connection, Pool
from tocsin.store.rows import fetch_all, fetch_one

MOST_SEGMENTS = 1_000
SWEPT = 5_000
"""How many members of a dropped segment are deleted at once."""
ABANDONED_AFTER = timedelta(hours=1)
REPLACED_FOR = timedelta(minutes=10)
"""How long an upload that was replaced is kept for an intent that has just found it."""


class UploadLostError(TocsinError):
    """The upload was dropped meanwhile, because nothing came for long."""

    def __init__(self) -> None:
        super().__init__("The upload took too long between two batches and was dropped; upload it again.")


class TooManySegmentsError(TocsinError):
    """There are as many segments as there can be."""

    def __init__(self) -> None:
        super().__init__(f"there are {MOST_SEGMENTS:,} segments already; delete one")


class SegmentRow(msgspec.Struct, frozen=True, kw_only=True):
    """A current segment."""

    id: UUID
    name: str
    org_id: str | None
    members: int
    updated_at: datetime


_COLUMNS = ", ".join(SegmentRow.__struct_fields__)

# Few at a time are just over the limit if they begin at once, which does no harm.
BEGIN = """
insert into segments (id, name, org_id, state, updated_at)
select $1, $2, $3, 'uploading', $4
where (select count(*) from segments where state = 'current' and name <> $2) < $5
returning id
"""

# Locks the row too, so that nothing is added to an upload that is being swept.
ADD = """
with added as (
    insert into segment_members (segment_id, user_id)
    select $1, user_id
    from unnest($2::text[]) as given (user_id)
    on conflict do nothing
    returning user_id
)
update segments
set members = members + (select count(*) from added), updated_at = $3
where id = $1 and state = 'uploading'
returning members
"""

# Locked in one order: the uploads of one name come after each other.
LOCK_NAME = (
    "select pg_advisory_xact_lock(hashtextextended('tocsin segment ' || $1 || ' ' || coalesce($2, ''), 0))"
)

DROP = """
update segments
set state = 'replaced', updated_at = $3
where name = $1 and org_id is not distinct from $2 and state = 'current'
returning id
"""

MAKE_CURRENT = f"""
update segments
set state = 'current', updated_at = $2
where id = $1 and state = 'uploading'
returning {_COLUMNS}
"""  # noqa: S608 - made of constants

DROP_UPLOAD = """
update segments
set state = 'replaced', updated_at = $2
where id = $1 and state = 'uploading'
"""

FIND = f"""
select {_COLUMNS}
from segments
where name = $1 and org_id is not distinct from $2 and state = 'current'
"""  # noqa: S608 - made of constants

LIST = f"""
select {_COLUMNS}
from segments
where state = 'current' and ($1::text is null or org_id = $1)
order by name, org_id nulls first
limit {MOST_SEGMENTS}
"""  # noqa: S608 - made of constants

OF_USER = """
select segments.name
from segment_members
join segments on segments.id = segment_members.segment_id
where segment_members.user_id = $1
    and segments.state = 'current'
    and ($2::text is null or segments.org_id = $2)
order by segments.name
"""

FORGET = """
with gone as (
    delete from segment_members
    using segments
    where segments.id = segment_members.segment_id
        and segment_members.user_id = $1
        and ($2::text is null or segments.org_id = $2)
    returning segment_members.segment_id
)
update segments
set members = members - 1
where id in (select segment_id from gone)
"""

NEXT_DROPPED = """
select id
from segments
where state <> 'current'
    and updated_at < case when state = 'uploading' then $1::timestamptz else $2::timestamptz end
    and (
        select true
        from broadcasts
        where broadcasts.segment_id = segments.id and broadcasts.state = 'expanding'
        limit 1
    ) is null
order by updated_at
limit 1
for update skip locked
"""

SWEEP = """
delete from segment_members
where segment_id = $1
    and user_id in (select user_id from segment_members where segment_id = $1 order by user_id limit $2)
"""

DELETE = "delete from segments where id = $1"


async def begin(connection: Connection | Pool, name: str, org_id: str | None, now: datetime) -> UUID:
    """Begin an upload and return its id."""
    upload = uuid7()
    if await connection.fetchval(BEGIN, upload, name, org_id, now, MOST_SEGMENTS) is None:
        raise TooManySegmentsError
    return upload


async def add(connection: Connection, upload: UUID, user_ids: Sequence[str], now: datetime) -> int:
    """Add people to an upload, each once; return how many it has now."""
    members: int | None = await connection.fetchval(ADD, upload, user_ids, now)
    if members is None:
        raise UploadLostError
    return members


async def replace(
    connection: Connection, upload: UUID, name: str, org_id: str | None, now: datetime
) -> SegmentRow:
    """Make an upload the current segment of its name; runs in a transaction."""
    await connection.execute(LOCK_NAME, name, org_id)
    await connection.execute(DROP, name, org_id, now)
    row = await fetch_one(connection, SegmentRow, MAKE_CURRENT, upload, now)
    if row is None:
        raise UploadLostError
    return row


async def abandon(connection: Connection | Pool, upload: UUID, now: datetime) -> None:
    """Drop an upload that failed."""
    await connection.execute(DROP_UPLOAD, upload, now)


async def delete(connection: Connection | Pool, name: str, org_id: str | None, now: datetime) -> bool:
    """Drop the current segment of a name; return whether there was one."""
    return await connection.fetchval(DROP, name, org_id, now) is not None


async def find(connection: Connection | Pool, name: str, org_id: str | None) -> SegmentRow | None:
    """Read the current segment of a name, of an organisation or of none."""
    return await fetch_one(connection, SegmentRow, FIND, name, org_id)


async def list_all(connection: Connection | Pool, org_id: str | None = None) -> list[SegmentRow]:
    """List the current segments by name, of an organisation or all."""
    return await fetch_all(connection, SegmentRow, LIST, org_id)


async def names_of_user(connection: Connection, user_id: str, org_id: str | None = None) -> list[str]:
    """List the names of the current segments that a person is in, of an organisation or all."""
    return [row["name"] for row in await connection.fetch(OF_USER, user_id, org_id)]


async def forget_user(connection: Connection, user_id: str, org_id: str | None) -> None:
    """Take a person out of every segment, or of those of an organisation."""
    await connection.execute(FORGET, user_id, org_id)


async def sweep(connection: Connection, now: datetime) -> bool:
    """Delete some members of a dropped upload; return whether there was one. Runs in a transaction."""
    dropped = await connection.fetchval(NEXT_DROPPED, now - ABANDONED_AFTER, now - REPLACED_FOR)
    if dropped is None:
        return False
    status: str = await connection.execute(SWEEP, dropped, SWEPT)
    if int(status.rpartition(" ")[2]) < SWEPT:
        await connection.execute(DELETE, dropped)
    return True
