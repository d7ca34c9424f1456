"""Prunes notifications and digests of which nothing waits any more, with all that belongs to them.

Ids are UUIDv7, so an index by notification lists the oldest first. The ids only bound what is read: the
settlements, stored by the clock of the database, decide. Every statement is bounded by the number of rows it
is given, however many deliveries a notification has.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple, TypeAlias
from uuid import UUID

import msgspec

from tocsin.domain.delivery.states import WAITING
from tocsin.domain.ids import first_id_at
from tocsin.domain.retention import Cutoffs
from tocsin.store.pool import Connection
from tocsin.store.rows import fetch_all

START = UUID(int=0)
LEAST_EXAMINED = 100

Counts: TypeAlias = dict[str, int]


class Old(msgspec.Struct, frozen=True, kw_only=True):
    """A notification or digest whose retention may be over.

    It is `kept` if one of its deliveries waits; `settled_at` is when the last of them was settled.
    `deliveries` go with it.
    """

    id: UUID
    settled_at: datetime
    kept: bool
    deliveries: int


class Page(NamedTuple):
    """The next notifications or digests, and the id after which there may be more."""

    old: list[Old]
    after: UUID | None


# Read by their deliveries: a notification that lost its content has none, and is not read again. A message
# with a receipt to come is settled already; its ticket goes with it.
NOTIFICATIONS = """
select
    page.notification_id as id, max(page.settled_at) as settled_at, bool_or(page.waits) as kept,
    count(*) as deliveries
from (
    select notification_id, coalesce(settled_at, created_at) as settled_at, state = any($4::text[]) as waits
    from deliveries
    where notification_id > $1 and notification_id < $2
    order by notification_id
    limit $3
) as page
group by page.notification_id
order by page.notification_id
"""

DELIVERIES = """
select coalesce(settled_at, created_at) as settled_at, state = any($2::text[]) as waits
from deliveries
where notification_id = $1
"""

_NOTHING_LEFT = """
    (
        select true
        from deliveries
        where deliveries.notification_id = {id}
        limit 1
    ) is null
    and (
        select true
        from broadcasts
        where broadcasts.notification_id = {id} and broadcasts.state = 'expanding'
        limit 1
    ) is null
"""

# The last one is listed in any case, to show how far the page reaches.
WITHOUT_DELIVERIES = f"""
with page as materialized (
    select id, accepted_at, pruned_at
    from notifications
    where id > $1 and id < $2
    order by id
    limit $3
),
examined as materialized (
    select
        page.id, page.accepted_at,
        page.pruned_at is not null or not ({_NOTHING_LEFT.format(id="page.id")}) as kept
    from page
)
select id, accepted_at as settled_at, kept, 0 as deliveries
from examined
where not kept or id = (select id from page order by id desc limit 1)
order by id
"""  # noqa: S608 - made of constants

# Its members belong to their notifications, and most went with them before: few deliveries are left to read.
DIGESTS = """
select
    page.id, coalesce(own.settled_at, page.opened_at) as settled_at, coalesce(own.waits, false) as kept,
    own.carriers as deliveries
from (
    select id, opened_at
    from digests
    where id > $1 and id < $2
    order by id
    limit $3
) as page
cross join lateral (
    select
        max(coalesce(deliveries.settled_at, deliveries.created_at)) as settled_at,
        bool_or(deliveries.state = any($4::text[])) as waits,
        count(*) filter (where deliveries.notification_id is null) as carriers
    from deliveries
    where deliveries.digest_id = page.id
) as own
order by page.id
"""

# No foreign key keeps a notification that has deliveries. Whoever adds one to it holds the lock of another
# that waits, or of a broadcast that is expanding: what was replayed meanwhile is not deleted, and neither is
# its notification. Devices keep their counts, and are updated in the order of their ids, to avoid deadlocks.
_PRUNE = """
with locked as materialized (
    select id
    from {owners}
    where id = any($1::uuid[])
    order by id
    for update skip locked
),
old as materialized (
    select own.id
    from locked
    cross join lateral (
        select deliveries.id
        from deliveries
        where {own}
            and deliveries.state <> all($3::text[])
            and coalesce(deliveries.settled_at, deliveries.created_at) < $2
        limit $4
    ) as own
    limit $4
),
pruned as (
    delete from deliveries
    where id = any(array(select id from old)) and state <> all($3::text[])
    returning id, device_id, user_id, state, settled_at
),
counted as (
    update devices
    set notification_count = devices.notification_count + (
            select count(*)
            from unnest(sent.times) as counted (settled_at)
            where counted.settled_at > coalesce(devices.last_sent_at, '-infinity')
        ),
        pruned_sent_at = greatest(devices.pruned_sent_at, sent.last_at)
    from (
        select device_id, user_id, array_agg(settled_at) as times, max(settled_at) as last_at
        from pruned
        where state in ('sent', 'delivered')
        group by device_id, user_id
        order by device_id
    ) as sent
    -- Not "=", by which the planner could read all devices of the person for each.
    where devices.id = sent.device_id and devices.user_id is not distinct from sent.user_id
)
select array(select id from locked) as locked, (select count(*) from pruned) as deliveries
"""
PRUNE_DELIVERIES = _PRUNE.format(owners="notifications", own="deliveries.notification_id = locked.id")
PRUNE_CARRIERS = _PRUNE.format(
    owners="digests", own="deliveries.digest_id = locked.id and deliveries.notification_id is null"
)

# A delivery that was replayed meanwhile keeps its notification. Statements of their own, to see that.
DELETE_NOTIFICATIONS = f"""
delete from notifications
where id = any($1::uuid[]) and {_NOTHING_LEFT.format(id="notifications.id")}
returning id
"""  # noqa: S608 - made of constants

EMPTY_NOTIFICATIONS = f"""
update notifications
set pruned_at = $2, audience = '{{}}', payload = '{{}}', collapse_key = null, request_id = null,
    trace_id = null, locale = null, reference = null
where id = any($1::uuid[]) and pruned_at is null and {_NOTHING_LEFT.format(id="notifications.id")}
returning id
"""  # noqa: S608 - made of constants

DELETE_DIGESTS = """
delete from digests
where id = any($1::uuid[])
    and (
        select true
        from deliveries
        where deliveries.digest_id = digests.id
            and (deliveries.notification_id is null or deliveries.state = any($2::text[]))
        limit 1
    ) is null
returning id
"""

# A pass that is lost is repeated, so its commits do not wait for the disk.
_UNHURRIED = "set local synchronous_commit = off"
_waiting = sorted(WAITING)


async def list_notifications(connection: Connection, after: UUID, cutoffs: Cutoffs, limit: int) -> Page:
    """List the oldest notifications after an id that have deliveries, as many as have `limit` of them."""
    if cutoffs.content is None:
        return Page([], None)
    before = first_id_at(cutoffs.content)
    old = await fetch_all(connection, Old, NOTIFICATIONS, after, before, limit, _waiting)
    if sum(each.deliveries for each in old) < limit:
        return Page(old, None)
    if len(old) > 1:
        # The limit may have cut it off.
        old.pop()
    elif not old[0].kept:
        old = [await _examine(connection, old[0], limit)]
    return Page(old, old[-1].id)


async def _examine(connection: Connection, old: Old, limit: int) -> Old:
    """Read all deliveries of a notification that has many, in several calls, until one is found to wait."""
    settled_at, deliveries = old.settled_at, 0
    async with connection.transaction():
        cursor = await connection.cursor(DELIVERIES, old.id, _waiting)
        while rows := await cursor.fetch(max(limit, LEAST_EXAMINED)):
            deliveries += len(rows)
            settled_at = max(settled_at, *(row["settled_at"] for row in rows))
            if any(row["waits"] for row in rows):
                return msgspec.structs.replace(old, kept=True)
    return Old(id=old.id, settled_at=settled_at, kept=False, deliveries=deliveries)


async def list_without_deliveries(connection: Connection, after: UUID, cutoffs: Cutoffs, limit: int) -> Page:
    """List those of the next `limit` notifications after an id that never had a delivery."""
    if cutoffs.content is None:
        return Page([], None)
    before = first_id_at(cutoffs.content)
    old = await fetch_all(connection, Old, WITHOUT_DELIVERIES, after, before, limit)
    return Page(old, old[-1].id if old else None)


async def list_digests(connection: Connection, after: UUID, cutoffs: Cutoffs, limit: int) -> Page:
    """List the oldest digests after an id, those that wait included."""
    if cutoffs.content is None:
        return Page([], None)
    before = first_id_at(cutoffs.content)
    old = await fetch_all(connection, Old, DIGESTS, after, before, limit, _waiting)
    return Page(old, old[-1].id if len(old) == limit else None)


def is_prunable(old: Old, cutoffs: Cutoffs) -> bool:
    """Return whether a notification loses its content now, or it or a digest goes."""
    return not old.kept and cutoffs.content is not None and old.settled_at < cutoffs.content


def count_notifications(old: Iterable[Old], cutoffs: Cutoffs) -> Counts:
    """Count what `prune_notifications` would prune."""
    old = list(old)
    emptied = sum(_keeps_key(each, cutoffs) for each in old)
    return {
        "deliveries": sum(each.deliveries for each in old),
        "notifications": len(old) - emptied,
        "notifications_emptied": emptied,
    }


def count_digests(old: Iterable[Old], _: Cutoffs) -> Counts:
    """Count what `prune_digests` would prune."""
    old = list(old)
    return {"deliveries": sum(each.deliveries for each in old), "digests": len(old)}


async def prune_notifications(
    connection: Connection, old: Sequence[Old], cutoffs: Cutoffs, limit: int
) -> Counts:
    """Prune at most `limit` deliveries, and the notifications that have none left and whose keys may go."""
    keyed = {each.id for each in old if _keeps_key(each, cutoffs)}
    async with connection.transaction():
        locked, deliveries = await _prune(connection, PRUNE_DELIVERIES, old, cutoffs, limit)
        deleted = await connection.fetch(DELETE_NOTIFICATIONS, [each for each in locked if each not in keyed])
        emptied = (
            await connection.fetch(
                EMPTY_NOTIFICATIONS, [each for each in locked if each in keyed], cutoffs.now
            )
            if keyed
            else []
        )
    return {
        "deliveries": deliveries,
        "notifications": len(deleted),
        "notifications_emptied": len(emptied),
    }


async def prune_digests(connection: Connection, old: Sequence[Old], cutoffs: Cutoffs, limit: int) -> Counts:
    """Prune at most `limit` deliveries that carried digests, and the digests that have none left."""
    async with connection.transaction():
        locked, deliveries = await _prune(connection, PRUNE_CARRIERS, old, cutoffs, limit)
        deleted = await connection.fetch(DELETE_DIGESTS, locked, _waiting)
    return {"deliveries": deliveries, "digests": len(deleted)}


async def _prune(
    connection: Connection, statement: str, old: Sequence[Old], cutoffs: Cutoffs, limit: int
) -> tuple[list[UUID], int]:
    """Prune deliveries within a transaction; return the ids under lock, and how many deliveries went."""
    await connection.execute(_UNHURRIED)
    row = await connection.fetchrow(statement, [each.id for each in old], cutoffs.content, _waiting, limit)
    return row["locked"], row["deliveries"]


def _keeps_key(old: Old, cutoffs: Cutoffs) -> bool:
    return cutoffs.keys is None or old.settled_at >= cutoffs.keys
