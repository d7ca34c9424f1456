"""Finds notifications by a filter, newest first, a window of bounded size at a time.

Each field that an index of deliveries begins with can lead the search. How far back the next entries of its
index reach shows how selective it is: the one that reaches furthest leads, and the search is complete down to
there. Without such a field the deliveries are walked in the order of their notifications, or, if no field is
one of deliveries, the notifications, those of an organisation by an index of their own.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple
from uuid import UUID

import msgspec

from tocsin.domain.delivery.states import State
from tocsin.store.deliveries.conditions import has_state, on_deliveries, on_notifications
from tocsin.store.deliveries.read import DELIVERY_COLUMNS, DeliveryRow, delivery_row
from tocsin.store.pool import Connection
from tocsin.store.rows import fetch_all
from tocsin.wire.filters import DeliveryFilter

INDEXED_STATES = frozenset(State) - {State.PENDING, State.SENT, State.DELIVERED}
"""The states of the index `deliveries_unusual`: those without would cost every delivery that is sent."""

_SECONDS = 5.0


class Span(NamedTuple):
    """The notification ids from `oldest` to before `before`."""

    before: UUID
    oldest: UUID


class Window(msgspec.Struct, frozen=True):
    """What a window has: the newest ids, and its oldest id, or None if it reaches the end of the span."""

    ids: list[UUID]
    floor: UUID | None


class Lead(NamedTuple):
    """An index that can lead a search: conditions on its first column, and the column of its order.

    What matches meets one of the conditions; each is a search of its own in the order of the index.
    """

    table: str
    order: str
    conditions: tuple[str, ...]
    argument: str | None = None


class OutcomeCount(msgspec.Struct, frozen=True):
    """How many deliveries are in a state, for a reason or with an error code."""

    state: str
    cause: str | None
    count: int


class FoundDeliveries(msgspec.Struct, frozen=True):
    """The deliveries of a notification that match, up to a number, and how many it has at all, likewise."""

    matching: list[DeliveryRow]
    count: int


_FLOOR = """
select {order} as floor
from {table}
where {condition} and {order} < $1 and {order} >= $2
order by {order} desc
offset $3
limit 1
"""

_FIND_BY_DELIVERIES = """
select distinct deliveries.notification_id as id
from deliveries
where deliveries.notification_id < $1 and deliveries.notification_id >= $2 and {conditions}
order by deliveries.notification_id desc
limit $3
"""

# The limits keep each a look-up by key, whatever the planner knows of the tables.
_FIND_BY_BOTH = """
select distinct deliveries.notification_id as id
from deliveries
cross join lateral (
    select
    from notifications
    where notifications.id = deliveries.notification_id and {others}
    limit 1
) as matching
where deliveries.notification_id < $1 and deliveries.notification_id >= $2 and {conditions}
order by deliveries.notification_id desc
limit $3
"""

_FIND_BY_EITHER = """
select found.id
from ({either}) as found
order by found.id desc
limit $3
"""

_FIND_BY_NOTIFICATIONS = """
select notifications.id
from notifications
where notifications.id < $1 and notifications.id >= $2 and {others}
order by notifications.id desc
limit $3
"""

# The subquery reads its own index alone: its limit keeps other conditions, for which the planner may choose
# another index, out of it.
_FIND_OF_ORG = """
select own.id
from (
    select notifications.id
    from notifications
    where notifications.id < $1 and notifications.id >= $2 and notifications.org_id = $4
    order by notifications.id desc
    limit 1000000
) as own
cross join lateral (
    select
    from notifications
    where notifications.id = own.id and {others}
    limit 1
) as matching
order by own.id desc
limit $3
"""

# In the order of the index: it reads no more of a notification than it takes to find those.
_MATCHING = """
select matching.*
from unnest($1::uuid[]) as given (id)
cross join lateral (
    select {columns}
    from deliveries
    where deliveries.notification_id = given.id and {conditions}
    order by deliveries.notification_id, deliveries.user_id
    limit $2
) as matching
"""

COUNT = """
select given.id, counted.count
from unnest($1::uuid[]) as given (id)
cross join lateral (
    select count(*) as count
    from (
        select
        from deliveries
        where deliveries.notification_id = given.id
        limit $2
    ) as own
) as counted
"""


# The newest first; what carries a digest is left out, as its members count.
_OUTCOMES = """
select
    state,
    coalesce(reason, case when state not in ('sent', 'delivered') then last_error_code end) as cause,
    count(*) as count
from (
    select state, reason, last_error_code, notification_id
    from deliveries
    where user_id = $1 and notification_id is not null
    order by user_id, notification_id desc
    limit $2
) as newest
{within}group by 1, 2
order by 3 desc, 1, 2
"""
OUTCOMES_OF_USER = _OUTCOMES.format(within="")
OUTCOMES_WITHIN = _OUTCOMES.format(
    within="""cross join lateral (
    select
    from notifications
    where notifications.id = newest.notification_id and notifications.org_id = $3
    limit 1
) as own
"""
)


async def find(connection: Connection, given: DeliveryFilter, span: Span, window: int, limit: int) -> Window:
    """Return the newest notifications of a window of the span that match, at most `limit`."""
    floors = []
    for lead in leads(given):
        own = [lead.argument] if lead.argument is not None else []
        reached = [
            await connection.fetchval(statement, *span, window, *own, timeout=_SECONDS) or span.oldest
            for statement in floor_statements(lead)
        ]
        floors.append((max(reached), lead))
    floor, lead = min(floors, key=lambda each: each[0])
    statement, arguments = find_statement(given, lead)
    rows = await connection.fetch(statement, span.before, floor, limit, *arguments, timeout=_SECONDS)
    return Window([row["id"] for row in rows], None if floor == span.oldest else floor)


async def matching(
    connection: Connection, given: DeliveryFilter, ids: Sequence[UUID], most: int, most_counted: int
) -> dict[UUID, FoundDeliveries]:
    """Read the matching deliveries of each notification, and count all it has."""
    statement, arguments = matching_statement(given)
    records = await connection.fetch(statement, ids, most, *arguments, timeout=_SECONDS)
    counts = await connection.fetch(COUNT, ids, most_counted, timeout=_SECONDS)
    found = {row["id"]: FoundDeliveries([], row["count"]) for row in counts}
    for record in sorted(records, key=lambda each: each["id"]):
        found[record["notification_id"]].matching.append(delivery_row(record))
    return found


async def outcomes_of_user(
    connection: Connection, user_id: str, most: int, org_id: str | None = None
) -> list[OutcomeCount]:
    """Count the newest deliveries to a person by state and cause, of an organisation or all."""
    if org_id is None:
        return await fetch_all(connection, OutcomeCount, OUTCOMES_OF_USER, user_id, most)
    return await fetch_all(connection, OutcomeCount, OUTCOMES_WITHIN, user_id, most, org_id)


def leads(given: DeliveryFilter) -> list[Lead]:
    """List the indexes that can lead a search."""
    by_delivery = "deliveries", "deliveries.notification_id"
    by_notification = "notifications", "notifications.id"
    equal = (
        ("deliveries.user_id = $4", given.user),
        ("deliveries.last_error_code = $4", given.code),
        ("deliveries.reason = $4", given.reason),
    )
    found = [Lead(*by_delivery, (condition,), value) for condition, value in equal if value is not None]
    if given.states and INDEXED_STATES.issuperset(given.states):
        found.append(Lead(*by_delivery, tuple(map(has_state, given.states))))
    if found:
        return found
    # A window of notifications may have a thousand times as many deliveries to look at.
    if on_deliveries(given).sql != "true":
        return [Lead(*by_delivery, ("true",))]
    if given.org_id is not None:
        return [Lead(*by_notification, ("notifications.org_id = $4",), given.org_id)]
    return [Lead(*by_notification, ("true",))]


def floor_statements(lead: Lead) -> list[str]:
    """Return the statements that find how far back a window of each condition reaches."""
    return [_FLOOR.format(table=lead.table, order=lead.order, condition=each) for each in lead.conditions]


def find_statement(given: DeliveryFilter, lead: Lead) -> tuple[str, tuple[Any, ...]]:
    """Return the statement that finds what matches in a window, and the arguments of its conditions."""
    if len(lead.conditions) > 1:
        # One after the other: an index is read in its order for one state at a time.
        single = [msgspec.structs.replace(given, state=state, status=None) for state in given.states]
        found = [_find_statement(each, lead) for each in single]
        either = " union ".join(f"({statement})" for statement, _ in found)
        return _FIND_BY_EITHER.format(either=either), found[0][1]
    return _find_statement(given, lead)


def _find_statement(given: DeliveryFilter, lead: Lead) -> tuple[str, tuple[Any, ...]]:
    own = on_deliveries(given, first=4)
    others = on_notifications(given, first=4 + len(own.arguments))
    if lead.table == "notifications" and lead.argument is not None:
        others = on_notifications(msgspec.structs.replace(given, org_id=None), first=5)
        return _FIND_OF_ORG.format(others=others.sql), (lead.argument, *others.arguments)
    if lead.table == "notifications":
        statement = _FIND_BY_NOTIFICATIONS
    else:
        statement = _FIND_BY_DELIVERIES if others.sql == "true" else _FIND_BY_BOTH
    return statement.format(conditions=own.sql, others=others.sql), own.arguments + others.arguments


def matching_statement(given: DeliveryFilter) -> tuple[str, tuple[Any, ...]]:
    """Return the statement that reads the matching deliveries, and the arguments of its conditions."""
    conditions = on_deliveries(given, first=3)
    statement = _MATCHING.replace("{columns}", DELIVERY_COLUMNS).replace("{conditions}", conditions.sql)
    return statement, conditions.arguments
