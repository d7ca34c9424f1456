"""Reads dead letters: grouped by cause, counted, or page by page.

They are read in the order of their ids by an index of their own, a stretch of bounded length at a time.
"""

from datetime import datetime
from typing import NamedTuple
from uuid import UUID

import msgspec

from tocsin.store.deliveries.conditions import Conditions, on_deliveries, on_notifications
from tocsin.store.pool import Connection
from tocsin.store.rows import fetch_all
from tocsin.wire.dead_letters import DeadLetterFilter

FIRST = UUID(int=0)
LAST = UUID(int=(1 << 128) - 1)

IS_DEAD_LETTER = "deliveries.state in ('dead', 'rejected', 'gone') and deliveries.notification_id is not null"
"""The condition of the index; carriers of digests are not listed, their members are."""


class GroupRow(msgspec.Struct, frozen=True, kw_only=True):
    """Dead letters with one cause, and the newest of them as an example."""

    state: str
    code: str | None
    provider: str | None
    type: str
    count: int
    oldest: datetime
    id: UUID
    notification_id: UUID
    channel: str
    user_id: str | None
    address: str | None
    error: str | None
    settled_at: datetime


class DeadLetterRow(msgspec.Struct, frozen=True, kw_only=True):
    """A dead letter as it is stored, with its notification; `payload` is JSON."""

    id: UUID
    notification_id: UUID
    type: str
    version: int
    producer: str
    idempotency_key: str
    channel: str
    user_id: str | None
    address: str | None
    device_id: UUID | None
    state: str
    code: str | None
    provider: str | None
    error: str | None
    attempts: int
    accepted_at: datetime
    expires_at: datetime | None
    settled_at: datetime
    payload: str


class Stretch(NamedTuple):
    """Dead letters after one id up to another; `last` if none follows."""

    after: UUID
    through: UUID
    last: bool


END_OF_STRETCH = f"""
select id
from deliveries
where {IS_DEAD_LETTER} and id > $1 and id <= $2
order by id
offset $3
limit 1
"""  # noqa: S608 - made of constants

START_OF_NEWEST = f"""
select id
from deliveries
where {IS_DEAD_LETTER}
order by id desc
offset $1
limit 1
"""  # noqa: S608 - made of constants

NEWEST = f"""
select id
from deliveries
where {IS_DEAD_LETTER}
order by id desc
limit 1
"""  # noqa: S608 - made of constants

# Only the subquery `deliveries` reads the table, by its own index: its limit keeps the planner from reading
# all that ever had an error code. The other limits keep each a look-up by key.
_WITHIN = """(
    select *
    from deliveries
    where {is_dead_letter} and id > $1 and id <= $2
    order by id
    limit 100000
) as deliveries""".replace("{is_dead_letter}", IS_DEAD_LETTER)

# Those that were chosen are looked up, however far they are apart.
_CHOSEN = """(
    select *
    from deliveries
    where {is_dead_letter} and id > $1 and id <= $2 and id = any($chosen::uuid[])
    order by id
    limit 100000
) as deliveries""".replace("{is_dead_letter}", IS_DEAD_LETTER)

_GROUPS = """
select
    causes.state, causes.code, causes.provider, causes.type, causes.count, causes.oldest, newest.id,
    newest.notification_id, newest.channel, newest.user_id, newest.address, newest.last_error as error,
    newest.settled_at
from (
    select
        deliveries.state, deliveries.last_error_code as code, deliveries.provider, notification.type,
        count(*) as count, min(deliveries.settled_at) as oldest, max(deliveries.id::text)::uuid as newest_id
    from {within}
    cross join lateral (
        select notifications.type
        from notifications
        where notifications.id = deliveries.notification_id and {others}
        limit 1
    ) as notification
    where {conditions}
    group by deliveries.state, deliveries.last_error_code, deliveries.provider, notification.type
    order by count(*) desc, min(deliveries.settled_at)
    limit $3
) as causes
join deliveries as newest on newest.id = causes.newest_id
order by causes.count desc, causes.oldest
"""

_MATCHES = """
from {within}
cross join lateral (
    select
    from notifications
    where notifications.id = deliveries.notification_id and {others}
    limit 1
) as notification
where {conditions}
"""
_COUNT = f"select count(*) {_MATCHES}"
_MATCHING = f"select deliveries.id {_MATCHES} order by deliveries.id limit $3"

_PAGE = """
select
    deliveries.id, deliveries.notification_id, notification.type, notification.version,
    notification.producer, notification.idempotency_key, deliveries.channel, deliveries.user_id,
    deliveries.address, deliveries.device_id, deliveries.state, deliveries.last_error_code as code,
    deliveries.provider, deliveries.last_error as error, deliveries.attempts, notification.accepted_at,
    notification.expires_at, deliveries.settled_at, notification.payload
from {within}
cross join lateral (
    select
        notifications.type, notifications.version, notifications.producer, notifications.idempotency_key,
        notifications.accepted_at, notifications.expires_at, notifications.payload::text as payload
    from notifications
    where notifications.id = deliveries.notification_id and {others}
    limit 1
) as notification
where {conditions}
order by deliveries.id
"""


def statement(template: str, given: DeadLetterFilter, first: int) -> Conditions:
    """Return a statement with the conditions of a filter, and their arguments, numbered from `first`."""
    own = on_deliveries(given, first)
    others = on_notifications(given, first + len(own.arguments))
    arguments = own.arguments + others.arguments
    conditions = [own.sql]
    for column, value in (("id", given.delivery_id), ("notification_id", given.notification_id)):
        if value is not None:
            conditions.append(f"deliveries.{column} = ${first + len(arguments)}")
            arguments += (value,)
    within = _WITHIN
    if given.delivery_ids is not None:
        within = _CHOSEN.replace("$chosen", f"${first + len(arguments)}")
        arguments += (given.delivery_ids,)
    sql = template.format(within=within, others=others.sql, conditions=" and ".join(conditions))
    return Conditions(sql, arguments)


async def groups(
    connection: Connection, given: DeadLetterFilter, within: Stretch, limit: int
) -> list[GroupRow]:
    """Group the dead letters of a stretch by cause, the largest groups first."""
    asked = statement(_GROUPS, given, 4)
    return await fetch_all(
        connection, GroupRow, asked.sql, within.after, within.through, limit, *asked.arguments
    )


async def start_of_newest(connection: Connection, count: int) -> UUID | None:
    """Return the dead letter before the newest ones, or None if there are no more than those."""
    start: UUID | None = await connection.fetchval(START_OF_NEWEST, count)
    return start


async def stretch(
    connection: Connection, given: DeadLetterFilter, after: UUID, through: UUID, length: int
) -> Stretch:
    """Return the next dead letters after an id, at most `length`; those that were chosen are few."""
    if given.delivery_ids is not None:
        return Stretch(after, through, last=True)
    end = await connection.fetchval(END_OF_STRETCH, after, through, length - 1)
    return Stretch(after, end or through, last=end is None)


async def count(connection: Connection, given: DeadLetterFilter, within: Stretch) -> int:
    """Count the dead letters of a stretch that match."""
    asked = statement(_COUNT, given, 3)
    counted: int = await connection.fetchval(asked.sql, within.after, within.through, *asked.arguments)
    return counted


async def matching(
    connection: Connection, given: DeadLetterFilter, within: Stretch, limit: int
) -> list[UUID]:
    """List the first dead letters of a stretch that match, at most `limit`."""
    asked = statement(_MATCHING, given, 4)
    rows = await connection.fetch(asked.sql, within.after, within.through, limit, *asked.arguments)
    return [row["id"] for row in rows]


async def page(connection: Connection, given: DeadLetterFilter, within: Stretch) -> list[DeadLetterRow]:
    """Read the dead letters of a stretch that match, oldest first."""
    asked = statement(_PAGE, given, 3)
    return await fetch_all(
        connection, DeadLetterRow, asked.sql, within.after, within.through, *asked.arguments
    )


async def newest(connection: Connection) -> UUID:
    """Return the id of the newest dead letter, or the smallest id if there is none."""
    found: UUID | None = await connection.fetchval(NEWEST)
    return found or FIRST
