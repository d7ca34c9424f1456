"""Searches notifications within a bounded time, however rare what is searched for."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from uuid import UUID

import msgspec

from tocsin.domain.delivery.hints import hint
from tocsin.domain.delivery.states import STATUS_OF, State
from tocsin.domain.ids import created_at, first_id_at
from tocsin.domain.people.recipient import recipient_of, route_id
from tocsin.engine.inspect.waiting import Due, read_due
from tocsin.store import notifications
from tocsin.store.deliveries import search as store
from tocsin.store.deliveries.read import DeliveryRow
from tocsin.store.deliveries.search import FoundDeliveries, Span
from tocsin.store.notifications import SummaryRow
from tocsin.store.pool import Connection
from tocsin.wire.filters import DeliveryFilter
from tocsin.wire.search import MOST_COUNTED, FoundDelivery, FoundNotification, SearchPage

NEWEST = UUID(int=(1 << 128) - 1)
OLDEST = UUID(int=0)
BUDGET = 0.1
"""Seconds after which a search returns what it has."""
GRACE = 0.05
"""Seconds more that a window may take which was begun in time."""
MOST_LISTED = 20
# The time in an id comes from the clock of a process, the time of acceptance from that of the database.
CLOCK_SKEW = timedelta(minutes=1)

_FIRST_WINDOW = 2_000
_SMALLEST_WINDOW = 500
_LARGEST_WINDOW = 1_000_000
_GROWTH = 5


class _Found(msgspec.Struct):
    """The ids that were found, and where the search ended; None at the end of the span."""

    ids: list[UUID]
    floor: UUID | None = None


async def search(
    connection: Connection,
    given: DeliveryFilter,
    now: datetime,
    *,
    cursor: UUID | None = None,
    limit: int = 50,
    budget: float = BUDGET,
    default_zone: str | None = None,
) -> SearchPage:
    """Return the next notifications that match, newest first, or as far as the search came in its time.

    `default_zone` is for people without a time zone.
    """
    found = await _find(connection, given, span_of(given, cursor), limit, budget)
    items = await _items(connection, given, found.ids, now, default_zone)
    if len(found.ids) == limit:
        return SearchPage(items=items, next_cursor=found.ids[-1])
    searched_to = created_at(found.floor) if found.floor else None
    return SearchPage(items=items, next_cursor=found.floor, searched_to=searched_to)


def span_of(given: DeliveryFilter, cursor: UUID | None) -> Span:
    """Return the ids that notifications accepted within the times of a filter can have, before a cursor."""
    before = NEWEST if given.until is None else first_id_at(given.until + CLOCK_SKEW)
    oldest = OLDEST if given.since is None else first_id_at(given.since - CLOCK_SKEW)
    return Span(min(before, cursor or NEWEST), oldest)


async def _find(
    connection: Connection, given: DeliveryFilter, span: Span, limit: int, budget: float
) -> _Found:
    """Search window after window, each as large as fits into half of the time that is left.

    A window that is slower than those before, since it is not in memory, is given up: the search ends where
    it began. The first one is not, so that every search comes further.
    """
    found, window, began = _Found([]), _FIRST_WINDOW, time.monotonic()
    patience: float | None = None
    while True:
        asked = time.monotonic()
        try:
            async with asyncio.timeout(patience):
                result = await store.find(connection, given, span, window, limit - len(found.ids))
        except TimeoutError:
            return found
        found.ids += result.ids
        found.floor = result.floor
        if result.floor is None or len(found.ids) == limit:
            return found
        ended = time.monotonic()
        left = budget - (ended - began)
        # The newest rows are in memory; how fast older ones are read shows in small steps.
        window = min(_LARGEST_WINDOW, _GROWTH * window, int(window * left / 2 / (ended - asked)))
        if window < _SMALLEST_WINDOW:
            return found
        span = span._replace(before=result.floor)
        patience = max(left, 0.0) + GRACE


async def _items(
    connection: Connection,
    given: DeliveryFilter,
    ids: Sequence[UUID],
    now: datetime,
    default_zone: str | None,
) -> list[FoundNotification]:
    if not ids:
        return []
    rows = await notifications.summaries(connection, ids)
    deliveries = await store.matching(connection, given, ids, MOST_LISTED + 1, MOST_COUNTED)
    listed = [each for row in rows for each in deliveries[row.id].matching[:MOST_LISTED]]
    wall_times: dict[UUID, datetime] = {
        row.id: row.send_at_local for row in rows if row.send_at_local is not None
    }
    due = await read_due(connection, listed, wall_times, now, default_zone)
    return [_item(row, deliveries[row.id], due) for row in rows]


def _item(row: SummaryRow, found: FoundDeliveries, due: Mapping[UUID, Due]) -> FoundNotification:
    fields = msgspec.structs.asdict(row)
    return FoundNotification(
        notification_id=fields.pop("id"),
        **fields,
        deliveries=[_found_delivery(each, row.type, due[each.id]) for each in found.matching[:MOST_LISTED]],
        truncated=len(found.matching) > MOST_LISTED,
        delivery_count=found.count,
    )


def _found_delivery(row: DeliveryRow, type_name: str, due: Due) -> FoundDelivery:
    recipient = recipient_of(row.user_id, row.address, type_name)
    return FoundDelivery(
        delivery_id=row.id,
        route_id=route_id(row.channel, recipient),
        channel=row.channel,
        recipient=str(recipient),
        device_id=row.device_id,
        state=row.state,
        status=STATUS_OF.get(State(row.state)),
        reason=row.reason,
        code=row.last_error_code,
        provider=row.provider,
        attempt_count=row.attempts,
        held_by=row.held_by,
        waiting_for=due.reason,
        due_at=due.at,
        digest_id=row.digest_id,
        settled_at=row.settled_at,
        hint=hint(row.last_error_code, row.state),
    )
