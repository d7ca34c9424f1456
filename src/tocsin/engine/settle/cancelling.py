"""Cancels notifications by a query, in chunks, each one transaction with its entry in the audit."""

import time
from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

import msgspec

from tocsin.domain.decide import Step
from tocsin.engine.inspect.search import span_of
from tocsin.store import audit
from tocsin.store.deliveries.cancelling import WaitingCount, cancel_many, count_waiting
from tocsin.store.deliveries.search import find
from tocsin.store.pool import Connection
from tocsin.wire.cancelling import CancelFilter, CancelledByQuery, CancelRequest

BUDGET = 2.0
"""Seconds after which a call answers with a cursor."""
WINDOW = 20_000
NOTIFICATIONS = 2_000
COUNTED = 100
"""Of how many notifications what waits is counted at once; each may have many deliveries."""
DELIVERIES = 5_000
"""How many deliveries are cancelled in one transaction, unless a single notification has more."""


async def cancel_by_query(
    connection: Connection, wanted: CancelRequest, actor: str, now: datetime, seconds: float | None = None
) -> CancelledByQuery:
    """Cancel what waits of the notifications that match, newest first, as far as it comes in its time."""
    given = wanted.filter.of_deliveries()
    span = span_of(given, wanted.cursor)
    sums = _Sums()
    ends = time.monotonic() + (BUDGET if seconds is None else seconds)
    while True:
        window = await find(connection, given, span, WINDOW, NOTIFICATIONS)
        for start in range(0, len(window.ids), COUNTED):
            some = window.ids[start : start + COUNTED]
            for chunk in _chunks(await count_waiting(connection, some, now)):
                done = None if wanted.dry_run else await _cancel(connection, wanted.filter, chunk, actor, now)
                sums.add(chunk, done)
                if time.monotonic() >= ends:
                    return sums.answer(chunk[-1].notification_id)
            if time.monotonic() >= ends:
                return sums.answer(some[-1])
        position = window.ids[-1] if len(window.ids) == NOTIFICATIONS else window.floor
        if position is None or time.monotonic() >= ends:
            return sums.answer(position)
        span = span._replace(before=position)


class _Sums(msgspec.Struct):
    """What a call has come to so far."""

    matched: int = 0
    cancelled: int = 0
    in_flight: int = 0

    def add(self, chunk: Sequence[WaitingCount], cancelled: int | None) -> None:
        """Count a chunk, and how much of it was cancelled; None if it was only counted."""
        ready = sum(each.waiting - each.in_flight for each in chunk)
        self.matched += ready
        self.in_flight += sum(each.in_flight for each in chunk)
        if cancelled is not None:
            self.cancelled += cancelled
            # What could not be cancelled was claimed meanwhile.
            self.in_flight += ready - cancelled

    def answer(self, position: UUID | None) -> CancelledByQuery:
        return CancelledByQuery(
            matched=self.matched,
            cancelled=self.cancelled,
            in_flight=self.in_flight,
            next_cursor=position,
        )


def _chunks(waiting: Sequence[WaitingCount]) -> list[list[WaitingCount]]:
    """Split notifications into chunks of about as many deliveries as one transaction may cancel."""
    chunks: list[list[WaitingCount]] = []
    size = DELIVERIES
    for each in waiting:
        if size + each.waiting > DELIVERIES:
            chunks.append([])
            size = 0
        chunks[-1].append(each)
        size += each.waiting
    return chunks


async def _cancel(
    connection: Connection, given: CancelFilter, chunk: Sequence[WaitingCount], actor: str, now: datetime
) -> int:
    ids: list[UUID] = [each.notification_id for each in chunk]
    step = Step(rule="cancelled", result="skip", detail=f"cancelled by {actor}", at=now)
    async with connection.transaction():
        cancelled = await cancel_many(connection, ids, step, now)
        details = {"filter": msgspec.to_builtins(given), "notifications": len(ids), "cancelled": cancelled}
        await audit.record(
            connection,
            actor=actor,
            action="notifications.cancel",
            subject=f"type:{given.type}" if given.type else "notifications",
            details=details,
        )
    return cancelled
