"""The items of people's inboxes: stored with the settlement of their deliveries, listed newest first."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, NamedTuple, TypeAlias
from uuid import UUID

import msgspec

from tocsin.store.pool import Connection
from tocsin.store.rows import fetch_all, transpose

MOST_COUNTED = 100
"""Counting ends here: a bell shows more than 99 as 99+."""

InboxState: TypeAlias = Literal["active", "unread", "archived", "all"]


class NewItem(msgspec.Struct, frozen=True, kw_only=True):
    """An item to be stored; `data` is JSON."""

    id: UUID
    delivery_id: UUID
    type: str
    category: str
    title: str
    body: str
    link: str | None
    icon: str | None
    data: str

    def __repr__(self) -> str:
        """Show the id, never the texts."""
        return f"NewItem({self.id})"


class ItemRow(msgspec.Struct, frozen=True, kw_only=True):
    """An item as it is stored; `data` is JSON."""

    id: UUID
    user_id: str
    type: str
    category: str
    title: str
    body: str
    link: str | None
    icon: str | None
    data: str
    created_at: datetime
    seen_at: datetime | None
    read_at: datetime | None
    archived_at: datetime | None


class Counts(NamedTuple):
    """How many items are unread and unseen, up to MOST_COUNTED."""

    unread: int
    unseen: int


COLUMNS = ", ".join("data::text as data" if name == "data" else name for name in ItemRow.__struct_fields__)

# Whose it is comes from the delivery: after an erasure that is nobody, and nothing is stored.
# A digest may have members of several organisations, and is of none then.
ADD = """
insert into inbox_items (
    id, user_id, delivery_id, type, category, title, body, link, icon, data, org_id, created_at
)
select
    given.id, d.user_id, d.id, given.type, given.category, given.title, given.body, given.link, given.icon,
    given.data,
    case
        when d.notification_id is not null
        then (select n.org_id from notifications as n where n.id = d.notification_id)
        else (
            select case
                when count(*) = count(n.org_id) and min(n.org_id) = max(n.org_id) then min(n.org_id)
            end
            from deliveries as member
            join notifications as n on n.id = member.notification_id
            where member.digest_id = d.digest_id and member.notification_id is not null
        )
    end,
    $10
from unnest(
    $1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[],
    $9::jsonb[]
) as given (id, delivery_id, type, category, title, body, link, icon, data)
join deliveries as d on d.id = given.delivery_id
where d.user_id is not null
order by given.id
on conflict (delivery_id) do nothing
returning id, user_id
"""

_LIST = """
select {columns}
from inbox_items
where user_id = $1 and id < $2 and ($3::text is null or category = $3){state}
order by user_id desc, id desc
limit $4
"""
LIST_ALL = _LIST.format(columns=COLUMNS, state="")
LIST_ACTIVE = _LIST.format(columns=COLUMNS, state=" and archived_at is null")
LIST_ARCHIVED = _LIST.format(columns=COLUMNS, state=" and archived_at is not null")
LIST_UNREAD = _LIST.format(columns=COLUMNS, state=" and read_at is null and archived_at is null")
_LISTS: Mapping[InboxState, str] = {
    "all": LIST_ALL,
    "active": LIST_ACTIVE,
    "archived": LIST_ARCHIVED,
    "unread": LIST_UNREAD,
}

# Each count is a stretch of an index that has nothing else.
COUNT = """
select given.user_id, unread.count as unread, unseen.count as unseen
from unnest($1::text[]) as given (user_id)
cross join lateral (
    select count(*)
    from (
        select
        from inbox_items
        where user_id = given.user_id and read_at is null and archived_at is null
        limit $2
    ) as counted
) as unread
cross join lateral (
    select count(*)
    from (
        select
        from inbox_items
        where user_id = given.user_id and seen_at is null and archived_at is null
        limit $2
    ) as counted
) as unseen
"""

GET_MANY = f"""
select {COLUMNS}
from inbox_items
where id = any($1::uuid[])
order by id
"""  # noqa: S608 - made of constants


async def add(connection: Connection, items: Sequence[NewItem], now: datetime) -> Sequence[tuple[str, UUID]]:
    """Store items of deliveries that were just settled; return whose they are and their ids."""
    columns = transpose(items, NewItem.__struct_fields__)
    return [(row["user_id"], row["id"]) for row in await connection.fetch(ADD, *columns, now)]


async def list_items(
    connection: Connection,
    user_id: str,
    before: UUID,
    *,
    state: InboxState = "active",
    category: str | None = None,
    limit: int,
) -> list[ItemRow]:
    """List items of a person, newest first, that are older than an id."""
    return await fetch_all(connection, ItemRow, _LISTS[state], user_id, before, category, limit)


async def count(connection: Connection, user_id: str) -> Counts:
    """Count the unread and unseen items of a person."""
    return (await count_many(connection, [user_id]))[user_id]


async def count_many(connection: Connection, user_ids: Sequence[str]) -> dict[str, Counts]:
    """Count the unread and unseen items of people."""
    rows: Sequence[Any] = await connection.fetch(COUNT, user_ids, MOST_COUNTED)
    return {row["user_id"]: Counts(row["unread"], row["unseen"]) for row in rows}


async def get_many(connection: Connection, ids: Sequence[UUID]) -> list[ItemRow]:
    """Read items by their ids, oldest first."""
    return await fetch_all(connection, ItemRow, GET_MANY, ids)
