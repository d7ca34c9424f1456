"""Handing rows of an outbox to Tocsin and telling what became of each."""

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, assert_never

import asyncpg
import structlog

from tocsin.domain.delivery.backoff import Ladder, delay
from tocsin.domain.errors import TocsinError
from tocsin.domain.faults import Fault
from tocsin.domain.intent import Intent
from tocsin.engine.accept.acceptor import Acceptor
from tocsin.engine.accept.answers import Accepted, Answer, Conflict, Duplicate, Invalid, Unreadable
from tocsin.engine.clock import Clock
from tocsin.ingress.outbox.envelopes import Reader
from tocsin.ingress.outbox.rows import Failed, Fate, Published
from tocsin.ingress.outbox.table import Row
from tocsin.store.health.provider_health import Alarm, raise_alarms, storable
from tocsin.store.pool import DATABASE_FAULTS, Pool

LADDER = Ladder(
    (
        timedelta(minutes=1),
        timedelta(minutes=5),
        timedelta(minutes=15),
        timedelta(hours=1),
        timedelta(hours=6),
        timedelta(days=1),
    )
)
ALARMING = 5
LONGEST_ERROR = 1_000
MOST_WAVES = 100
"""However many rows of one aggregate wait, the application's transaction stays short."""

# What the database says of one row's values. Everything else it may say is its own trouble.
_ROW_FAULTS = (
    asyncpg.DataError,
    asyncpg.IntegrityConstraintViolationError,
    asyncpg.ProgramLimitExceededError,
)

_log = structlog.stdlib.get_logger(__name__)


class NotTakingError(TocsinError):
    """Tocsin's own database is not there; no row is to blame."""


class Handover:
    """Accepts rows as intents of one producer; in order, a row that fails holds back those that follow it."""

    def __init__(
        self,
        outbox: str,
        producer: str,
        *,
        read: Reader,
        in_order: bool,
        acceptor: Acceptor,
        pool: Pool,
        clock: Clock,
    ) -> None:
        self._outbox = outbox
        self._producer = producer
        self._read = read
        self._in_order = in_order
        self._acceptor = acceptor
        self._pool = pool
        self._clock = clock

    async def hand_over(self, rows: Sequence[Row]) -> list[Fate]:
        """Accept rows and tell what became of them; those that have to wait are left out."""
        fates: list[Fate] = []
        failed: set[str | None] = set()
        try:
            for wave in waves(rows)[:MOST_WAVES] if self._in_order else [rows]:
                going = [row for row in wave if row.ordering_key is None or row.ordering_key not in failed]
                answers = await self._accept([self._read(row) for row in going])
                for row, answer in zip(going, answers, strict=True):
                    fate = self._fate(row, answer)
                    fates.append(fate)
                    if isinstance(fate, Failed):
                        failed.add(row.ordering_key)
            await self._alarm([fate for fate in fates if isinstance(fate, Failed)])
        except DATABASE_FAULTS as error:
            raise NotTakingError(
                f"Tocsin's database does not answer ({type(error).__name__}: {error})"
            ) from error
        return fates

    async def _accept(self, intents: Sequence[Intent | Unreadable]) -> list[Answer]:
        if not intents:
            return []
        try:
            return await self._acceptor.accept(self._producer, intents, source="outbox")
        except DATABASE_FAULTS as error:
            if not isinstance(error, _ROW_FAULTS):
                raise
            failure: Exception = error
        except Exception as error:  # noqa: BLE001 - a row can hold anything, and must not stop the rest
            failure = error
        if len(intents) == 1:
            message = f"cannot be stored ({type(failure).__name__}: {failure})"
            return [Invalid([Fault(field="$", code="not_storable", message=message)])]
        return [answer for intent in intents for answer in await self._accept([intent])]

    def _fate(self, row: Row, answer: Answer) -> Fate:
        match answer:
            case Accepted() | Duplicate():
                return Published(row.id)
            case Conflict(notification_id=holder):
                return self._failed(row, f"notification {holder} holds this row's key with other content")
            case Invalid(errors=faults):
                return self._failed(row, "; ".join(map(str, faults)))
            case _:
                assert_never(answer)

    def _failed(self, row: Row, error: str) -> Failed:
        attempts = row.failed_attempts + 1
        return Failed(
            id=row.id,
            attempts=attempts,
            retry_at=self._clock() + delay(LADDER, attempts, 0.0),
            error=storable(error)[:LONGEST_ERROR],
        )

    async def _alarm(self, failures: Sequence[Failed]) -> None:
        """Log every refusal, and tell an operator of rows that have failed too often."""
        alarms: Counter[Alarm] = Counter()
        for failure in failures:
            row, attempts, error = str(failure.id), failure.attempts, failure.error
            if attempts < ALARMING:
                _log.warning(
                    "outbox row refused", outbox=self._outbox, row=row, attempts=attempts, error=error
                )
                continue
            _log.error(
                "outbox row refused again and again",
                outbox=self._outbox,
                row=row,
                attempts=attempts,
                error=error,
                alarm=True,
            )
            detail = f"row {row} was refused {attempts} times: {error}"
            alarms[Alarm(f"outbox:{self._outbox}", "row_refused", detail)] += 1
        if alarms:
            async with self._pool.acquire() as connection:
                await raise_alarms(connection, alarms, self._clock())


def waves(rows: Sequence[Row]) -> list[list[Row]]:
    """Part rows so that those with the same ordering key come one after the other."""
    parted: list[list[Row]] = []
    seen: Counter[Any] = Counter()
    for row in rows:
        place = seen[row.ordering_key] if row.ordering_key is not None else 0
        if row.ordering_key is not None:
            seen[row.ordering_key] += 1
        if place == len(parted):
            parted.append([])
        parted[place].append(row)
    return parted
