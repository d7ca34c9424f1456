"""Accepts the rows of an outbox as intents, and decides the result of each."""

import logging
from collections import Counter
from collections.abc import Sequence
from typing import assert_never

import structlog

from tocsin.catalog.catalog import Catalog
from tocsin.domain.delivery.backoff import delay, parse_backoff
from tocsin.domain.errors import TocsinError
from tocsin.domain.faults import Fault
from tocsin.domain.intent import Intent
from tocsin.engine.accept.acceptor import Acceptor
from tocsin.engine.accept.answers import Accepted, Answer, Conflict, Duplicate, Invalid, Unreadable
from tocsin.engine.clock import Clock
from tocsin.ingress.outbox.envelopes import reader
from tocsin.ingress.outbox.rows import Failed, Published, Row, RowResult
from tocsin.ingress.outbox.settings import OutboxSettings, producer_of
from tocsin.store.health.provider_health import Alarm, raise_alarms, storable
from tocsin.store.pool import DATABASE_FAULTS, ROW_FAULTS, Pool

BACKOFF = parse_backoff("ladder(1m, 5m, 15m, 1h, 6h, 1d)")
ALARM_AFTER = 5
LONGEST_ERROR = 1_000
MOST_WAVES = 100
"""Keeps the application's transaction short, however many rows of one aggregate wait."""

_log = structlog.stdlib.get_logger(__name__)


class AcceptFailedError(TocsinError):
    """Tocsin's own database failed; no row is to blame."""


class RowAcceptor:
    """Accepts rows as intents of one producer; in order, a failed row holds back later rows of its key."""

    def __init__(
        self,
        outbox: str,
        settings: OutboxSettings,
        *,
        catalog: Catalog,
        acceptor: Acceptor,
        pool: Pool,
        clock: Clock,
    ) -> None:
        self._outbox = outbox
        self._producer = producer_of(outbox, settings)
        self._read = reader(settings, catalog)
        self._in_order = settings.order == "aggregate"
        self._acceptor = acceptor
        self._pool = pool
        self._clock = clock

    async def accept(self, rows: Sequence[Row]) -> list[RowResult]:
        """Accept rows and return their results, except for rows that are held back."""
        results: list[RowResult] = []
        failed: set[str | None] = set()
        try:
            for wave in waves(rows)[:MOST_WAVES] if self._in_order else [rows]:
                ready = [row for row in wave if row.ordering_key is None or row.ordering_key not in failed]
                answers = await self._accept([self._read(row) for row in ready])
                for row, answer in zip(ready, answers, strict=True):
                    result = self._result(row, answer)
                    results.append(result)
                    if isinstance(result, Failed):
                        failed.add(row.ordering_key)
            await self._report([result for result in results if isinstance(result, Failed)])
        except DATABASE_FAULTS as error:
            raise AcceptFailedError(
                f"Tocsin's database does not answer ({type(error).__name__}: {error})"
            ) from error
        return results

    async def _accept(self, intents: Sequence[Intent | Unreadable]) -> list[Answer]:
        if not intents:
            return []
        try:
            return await self._acceptor.accept(self._producer, intents, source="outbox")
        except Exception as error:
            if isinstance(error, DATABASE_FAULTS) and not isinstance(error, ROW_FAULTS):
                raise
            # A row can hold anything, and must not keep the others from being accepted.
            message = f"cannot be stored ({type(error).__name__})"
        if len(intents) == 1:
            return [Invalid([Fault(field="$", code="not_storable", message=message)])]
        return [answer for intent in intents for answer in await self._accept([intent])]

    def _result(self, row: Row, answer: Answer) -> RowResult:
        match answer:
            case Accepted() | Duplicate():
                return Published(row.id)
            case Conflict(notification_id=holder):
                error = f"notification {holder} holds this row's key with other content"
            case Invalid(errors=faults):
                error = "; ".join(map(str, faults))
            case _:
                assert_never(answer)
        attempts = row.failed_attempts + 1
        return Failed(
            id=row.id,
            attempts=attempts,
            retry_at=self._clock() + delay(BACKOFF, attempts, 0.0),
            error=storable(error)[:LONGEST_ERROR],
        )

    async def _report(self, failures: Sequence[Failed]) -> None:
        """Log every refusal, and raise alarms for rows that were refused too often."""
        alarms: Counter[Alarm] = Counter()
        for failure in failures:
            alarm = failure.attempts >= ALARM_AFTER
            _log.log(
                logging.ERROR if alarm else logging.WARNING,
                "outbox row refused",
                outbox=self._outbox,
                row=str(failure.id),
                attempts=failure.attempts,
                error=failure.error,
                alarm=alarm or None,
            )
            if alarm:
                detail = f"row {failure.id} was refused {failure.attempts} times: {failure.error}"
                alarms[Alarm(f"outbox:{self._outbox}", "row_refused", detail)] += 1
        if alarms:
            async with self._pool.acquire() as connection:
                await raise_alarms(connection, alarms, self._clock())


def waves(rows: Sequence[Row]) -> list[list[Row]]:
    """Split rows so that those with the same ordering key are in different waves, in their order."""
    split: list[list[Row]] = []
    seen: Counter[str] = Counter()
    for row in rows:
        wave = 0
        if row.ordering_key is not None:
            wave = seen[row.ordering_key]
            seen[row.ordering_key] += 1
        if wave == len(split):
            split.append([])
        split[wave].append(row)
    return split
