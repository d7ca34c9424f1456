"""Prunes notifications and digests of which nothing waits any more, with all that belongs to them.

Ids are UUIDv7, so the primary key lists the oldest first and no further index is needed. The ids only bound
what is read: the settlements, stored by the clock of the database, decide.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import TypeAlias
from uuid import UUID

import msgspec

from tocsin.domain.delivery.states import WAITING
from tocsin.domain.ids import first_id_at
from tocsin.domain.retention import Cutoffs
from tocsin.store.pool import Connection
from tocsin.store.rows import fetch_all

START = UUID(int=0)

Counts: TypeAlias = dict[str, int]


class OldNotification(msgspec.Struct, frozen=True, kw_only=True):
    """A notification at the end of its retention, if nothing of it waits.

    `settled_at` is when the last of its deliveries was settled.
    """

    id: UUID
    pruned_at: datetime | None
    settled_at: datetime
    waits: bool
    deliveries: int


class OldDigest(msgspec.Struct, frozen=True, kw_only=True):
    """A digest at the end of its retention, if neither it nor a member waits."""

    id: UUID
    settled_at: datetime
    waits: bool
    carriers: int


# A message with a receipt to come is settled already; its ticket goes with it.
NOTIFICATIONS = """
select
    page.id, page.pruned_at, coalesce(own.settled_at, page.accepted_at) as settled_at,
    coalesce(own.waits, false) as waits, own.deliveries
from (
    select id, pruned_at, accepted_at
    from notifications
    where id > $1 and id < $2
    order by id
    limit $3
) as page
cross join lateral (
    select
        max(coalesce(deliveries.settled_at, deliveries.created_at)) as settled_at,
        bool_or(deliveries.state = any($4::text[])) as waits,
        count(*) as deliveries
    from deliveries
    where deliveries.notification_id = page.id
) as own
order by page.id
"""

# The notifications are locked: whoever adds a delivery to one waits, and then finds it gone.
PRUNE_DELIVERIES = """
with locked as materialized (
    select id
    from notifications
    where id = any($1::uuid[])
    order by id
    for update skip locked
),
pruned as (
    delete from deliveries
    using locked
    where deliveries.notification_id = locked.id
        and deliveries.state <> all($3::text[])
        and coalesce(deliveries.settled_at, deliveries.created_at) < $2
    returning deliveries.id
)
select array(select id from locked) as locked, (select count(*) from pruned) as deliveries
"""

# A delivery that was replayed meanwhile keeps its notification. A statement of its own, to see that.
_HAS_NO_DELIVERIES = """
    (
        select true
        from deliveries
        where deliveries.notification_id = notifications.id
        limit 1
    ) is null
"""

DELETE_NOTIFICATIONS = f"""
delete from notifications
where id = any($1::uuid[]) and {_HAS_NO_DELIVERIES}
returning id
"""  # noqa: S608 - made of constants

EMPTY_NOTIFICATIONS = f"""
update notifications
set pruned_at = $2, audience = '{{}}', payload = '{{}}', collapse_key = null, request_id = null,
    trace_id = null
where id = any($1::uuid[]) and {_HAS_NO_DELIVERIES}
returning id
"""  # noqa: S608 - made of constants

DIGESTS = """
select
    page.id, coalesce(own.settled_at, page.opened_at) as settled_at, coalesce(own.waits, false) as waits,
    own.carriers
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

# Members belong to their notifications; here go the deliveries that carried the digest. The limit keeps it a
# look-up for each digest.
PRUNE_CARRIERS = """
with locked as materialized (
    select id
    from digests
    where id = any($1::uuid[])
    order by id
    for update skip locked
),
pruned as (
    delete from deliveries
    using locked
    cross join lateral (
        select carrier.id
        from deliveries as carrier
        where carrier.digest_id = locked.id and carrier.notification_id is null
        limit 100000
    ) as carriers
    where deliveries.id = carriers.id
        and deliveries.state <> all($3::text[])
        and coalesce(deliveries.settled_at, deliveries.created_at) < $2
    returning deliveries.id
)
select array(select id from locked) as locked, (select count(*) from pruned) as deliveries
"""

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


async def list_notifications(
    connection: Connection, after: UUID, cutoffs: Cutoffs, limit: int
) -> list[OldNotification]:
    """List the oldest notifications after an id, those that wait included."""
    if cutoffs.content is None:
        return []
    before = first_id_at(cutoffs.content)
    return await fetch_all(connection, OldNotification, NOTIFICATIONS, after, before, limit, _waiting)


def is_prunable(old: OldNotification, cutoffs: Cutoffs) -> bool:
    """Return whether a notification loses its content now, or goes."""
    if old.waits or cutoffs.content is None:
        return False
    if old.pruned_at is not None:
        return cutoffs.emptied is not None and old.pruned_at <= cutoffs.emptied
    return old.settled_at < cutoffs.content


def count_prunable(page: Iterable[OldNotification], cutoffs: Cutoffs) -> Counts:
    """Count what `prune_notifications` would prune of a page."""
    old = [each for each in page if is_prunable(each, cutoffs)]
    emptied = sum(_keeps_key(each, cutoffs) for each in old)
    return {
        "deliveries": sum(each.deliveries for each in old),
        "notifications": len(old) - emptied,
        "notifications_emptied": emptied,
    }


def split(old: Sequence[OldNotification], batch_size: int) -> Iterator[list[OldNotification]]:
    """Split notifications into batches of about `batch_size` deliveries."""
    batch: list[OldNotification] = []
    deliveries = 0
    for each in old:
        if batch and deliveries + each.deliveries > batch_size:
            yield batch
            batch, deliveries = [], 0
        batch.append(each)
        deliveries += each.deliveries
    if batch:
        yield batch


async def prune_notifications(
    connection: Connection, old: Sequence[OldNotification], cutoffs: Cutoffs
) -> Counts:
    """Prune the deliveries of notifications, and those notifications whose keys need not be kept."""
    keyed = {each.id for each in old if _keeps_key(each, cutoffs)}
    async with connection.transaction():
        await connection.execute(_UNHURRIED)
        pruned = await connection.fetchrow(
            PRUNE_DELIVERIES, [each.id for each in old], cutoffs.content, _waiting
        )
        deleted = await connection.fetch(
            DELETE_NOTIFICATIONS, [each for each in pruned["locked"] if each not in keyed]
        )
        emptied = (
            await connection.fetch(
                EMPTY_NOTIFICATIONS, [each for each in pruned["locked"] if each in keyed], cutoffs.now
            )
            if keyed
            else []
        )
    return {
        "deliveries": pruned["deliveries"],
        "notifications": len(deleted),
        "notifications_emptied": len(emptied),
    }


async def list_digests(connection: Connection, after: UUID, cutoffs: Cutoffs, limit: int) -> list[OldDigest]:
    """List the oldest digests after an id, those that wait included."""
    if cutoffs.content is None:
        return []
    before = first_id_at(cutoffs.content)
    return await fetch_all(connection, OldDigest, DIGESTS, after, before, limit, _waiting)


def is_ended(digest: OldDigest, cutoffs: Cutoffs) -> bool:
    """Return whether a digest goes now."""
    return not digest.waits and cutoffs.content is not None and digest.settled_at < cutoffs.content


async def prune_digests(connection: Connection, old: Sequence[OldDigest], cutoffs: Cutoffs) -> Counts:
    """Prune digests with the deliveries that carried them."""
    async with connection.transaction():
        await connection.execute(_UNHURRIED)
        pruned = await connection.fetchrow(
            PRUNE_CARRIERS, [each.id for each in old], cutoffs.content, _waiting
        )
        deleted = await connection.fetch(DELETE_DIGESTS, pruned["locked"], _waiting)
    return {"deliveries": pruned["deliveries"], "digests": len(deleted)}


def _keeps_key(old: OldNotification, cutoffs: Cutoffs) -> bool:
    return old.pruned_at is None and (cutoffs.keys is None or old.settled_at >= cutoffs.keys)
