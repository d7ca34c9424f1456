"""Accepts the rows of an outbox as intents, and decides the result of each."""

from collections import Counter
from collections.abc import Sequence
from typing import assert_never

from tocsin.catalog.catalog import Catalog
from tocsin.domain.faults import Fault
from tocsin.domain.intent import Intent
from tocsin.engine.accept.acceptor import Acceptor
from tocsin.engine.accept.answers import Accepted, Answer, Conflict, Duplicate, Invalid, Unreadable
from tocsin.engine.clock import Clock
from tocsin.ingress.outbox.envelopes import reader
from tocsin.ingress.outbox.handler import Handled, RowsBlockedError
from tocsin.ingress.outbox.refusals import refused, report
from tocsin.ingress.outbox.rows import Failed, Position, Published, Row, RowResult
from tocsin.ingress.outbox.settings import OutboxSettings, producer_of
from tocsin.store.pool import DATABASE_FAULTS, ROW_FAULTS, Pool

MOST_WAVES = 100
"""Keeps the application's transaction short, however many rows of one aggregate wait."""


class AcceptFailedError(RowsBlockedError):
    """Tocsin's own database failed."""


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
        org_scoping: bool = False,
    ) -> None:
        self._outbox = outbox
        self._producer = producer_of(outbox, settings)
        self._read = reader(settings, catalog, org_scoping=org_scoping)
        self._in_order = settings.order == "aggregate"
        self._acceptor = acceptor
        self._pool = pool
        self._clock = clock

    async def handle(self, rows: Sequence[Row], waiting: Sequence[Position]) -> Handled:  # noqa: ARG002 - the order is that of the rows' keys
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
            failures = [result for result in results if isinstance(result, Failed)]
            await report(self._outbox, failures, self._pool, self._clock())
        except DATABASE_FAULTS as error:
            raise AcceptFailedError(
                f"Tocsin's database does not answer ({type(error).__name__}: {error})"
            ) from error
        return Handled(results)

    async def recorded(self, results: Sequence[RowResult]) -> None:
        """Do nothing: what was accepted needs no more."""

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
        return refused(row, error, self._clock())


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
