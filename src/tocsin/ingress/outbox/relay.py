"""Relays the rows of one application's outbox: into Tocsin, or to a topic."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from datetime import timedelta
from functools import partial
from typing import Any, TypeVar

import asyncpg
import structlog

from tocsin.domain.delivery.backoff import parse_backoff
from tocsin.domain.errors import TocsinError
from tocsin.engine.clock import Clock
from tocsin.engine.duty import RETRIED_FAULTS, repeat
from tocsin.engine.listen import listen
from tocsin.ingress.outbox import rows as outbox_rows
from tocsin.ingress.outbox.handler import RowHandler, RowsBlockedError
from tocsin.ingress.outbox.install import channel
from tocsin.ingress.outbox.settings import OutboxSettings
from tocsin.ingress.outbox.table import OutboxSession, OutboxUnfitError, connect, inspect
from tocsin.ingress.report import SourceReport
from tocsin.store.pool import PoolSettings, opened_connection
from tocsin.telemetry import metrics
from tocsin.telemetry.samples import before_read

LANES = 2
BACKOFF = parse_backoff("exponential(250ms, 15s, 2, 0)")
FAULTS: tuple[type[Exception], ...] = (RowsBlockedError, OutboxUnfitError, *RETRIED_FAULTS)
STOP_SECONDS = 20.0
PRUNE_SECONDS = 3_600.0
PRUNE_BATCH = 1_000
MEASURE_SECONDS = 10.0
MOST_COUNTED = 10_000
"""Up to how many rows that wait are counted."""

T = TypeVar("T")

_log = structlog.stdlib.get_logger(__name__)


class Relay:
    """Reads one outbox until stopped; any number of relays, in any number of processes, may share it.

    The rows of a batch stay locked while they are handled: one transaction in the application's database for
    the few milliseconds of one in Tocsin's, or for the calls that publish to a topic. A lease would need a
    column that a table of somebody else's does not have, two more writes per row, and time to expire after
    a crash; a lock ends with its connection.
    """

    def __init__(
        self, name: str, settings: OutboxSettings, *, rows: RowHandler, pool: PoolSettings, clock: Clock
    ) -> None:
        self._name = name
        self._settings = settings
        self._rows = rows
        self._pool = pool
        self._clock = clock
        self.report = SourceReport("outbox", name)
        self._lag = 0.0
        self._measured_at = clock()
        # While one lane waits for a database the other works; in order there is only one at a time.
        self._wakes = [asyncio.Event() for _ in range(1 if settings.in_order else LANES)]

    async def run(self, stop: asyncio.Event) -> None:
        """Relay until `stop` is set, then finish the batches under way."""
        self._measured_at = self._clock()
        _running.add(self)
        try:
            await self._run(stop)
        finally:
            _running.discard(self)

    async def _run(self, stop: asyncio.Event) -> None:
        async with asyncio.TaskGroup() as group:
            upkeep = [group.create_task(duty) for duty in self._upkeep()]
            lanes = [group.create_task(self._relay(wake, stop)) for wake in self._wakes]
            await stop.wait()
            _, late = await asyncio.wait(lanes, timeout=STOP_SECONDS)
            for task in (*upkeep, *late):
                task.cancel()

    def _upkeep(self) -> Iterator[Coroutine[Any, Any, None]]:
        run = partial(repeat, subject=self._name, faults=FAULTS)
        if announced := channel(self._settings.schema, self._settings.table):
            yield run(partial(self._listen, announced), name="outbox listener", every=1.0, backoff=BACKOFF)
        if self._settings.kept_days:
            yield run(self._prune, name="outbox prune", every=PRUNE_SECONDS)
        measured = partial(self._reported, "measure", self._measure)
        yield run(measured, name="outbox lag", every=MEASURE_SECONDS)

    async def _listen(self, announced: str) -> None:
        """Wake the lanes whenever a transaction that wrote into the outbox commits."""

        async def notified(_: asyncpg.Connection, __: object) -> None:
            for wake in self._wakes:
                wake.set()

        await listen(opened_connection(connect(self._settings.url, self._pool)), announced, notified)

    async def _prune(self) -> None:
        before = self._clock() - timedelta(days=self._settings.kept_days)
        async with opened_connection(connect(self._settings.url, self._pool)) as connection:
            table = await inspect(connection, self._settings)
            pruned = 0
            while count := await outbox_rows.prune(connection, table, before, PRUNE_BATCH):
                pruned += count
        if pruned:
            _log.info("outbox pruned", outbox=self._name, rows=pruned)

    async def _reported(self, code: str, step: Callable[[], Awaitable[T]]) -> T:
        """Take a step, and report what keeps it from being taken."""
        try:
            done = await step()
        except FAULTS as error:
            self.report.failed(code, _reason(error))
            raise
        self.report.recovered(code)
        return done

    async def _measure(self) -> None:
        """Find out how many rows wait, and how long the oldest has."""
        async with opened_connection(connect(self._settings.url, self._pool)) as connection:
            table = await inspect(connection, self._settings)
            oldest = await outbox_rows.oldest_waiting(connection, table)
            waiting = await outbox_rows.count_waiting(connection, table, MOST_COUNTED + 1)
        now = self._clock()
        age = max(0.0, (now - oldest).total_seconds()) if oldest else None
        self._lag = age or 0.0
        self._measured_at = now
        self.report.measured(min(waiting, MOST_COUNTED), age, or_more=waiting > MOST_COUNTED)

    @property
    def lag(self) -> tuple[str, float]:
        """The name of the outbox, and for how many seconds its oldest row may have waited.

        While the outbox cannot be read, whatever waits in it gets older.
        """
        unread = (self._clock() - self._measured_at).total_seconds()
        return self._name, self._lag + (unread if unread > 2 * MEASURE_SECONDS else 0.0)

    async def _relay(self, wake: asyncio.Event, stop: asyncio.Event) -> None:
        """Relay one batch after the other over a connection of its own."""
        session = OutboxSession(self._settings, self._pool)
        try:
            await repeat(
                partial(self._reported, "relay", partial(self._batch, session)),
                name="outbox relay",
                subject=self._name,
                every=self._settings.poll_interval,
                wake=wake,
                stop=stop,
                backoff=BACKOFF,
                faults=FAULTS,
            )
        finally:
            session.close()

    async def _batch(self, session: OutboxSession) -> bool:
        """Lock rows, handle them, record their results, and return whether there may be more.

        If the relay is killed in between, its locks end with its connection. Rows that were accepted by then
        are answered as duplicates to the relay that takes them next; what was published by then is published
        again, and a FIFO topic drops it.
        """
        limit = self._settings.batch_size
        async with session as (connection, table), connection.transaction():
            held: list[str] = []
            now = self._clock()
            if self._settings.in_order and not await outbox_rows.keep_order(connection, table):
                return False
            if self._settings.order == "aggregate":
                held = await outbox_rows.held_back(connection, table, now)
            rows = await outbox_rows.take(connection, table, now=now, limit=limit, held=held)
            if not rows:
                return False
            waiting = await outbox_rows.retrying(connection, table, now) if self._settings.is_fifo else []
            handled = await self._rows.handle(rows, waiting)
            await outbox_rows.record(connection, table, handled.results, self._clock())
        await self._rows.recorded(handled.results)
        kinds = Counter(type(result) for result in handled.results)
        metrics.relayed.add((self._name, "published"), kinds[outbox_rows.Published])
        metrics.relayed.add((self._name, "failed"), kinds[outbox_rows.Failed])
        self.report.progressed()
        if failed := kinds[outbox_rows.Failed]:
            refused = "1 row was" if failed == 1 else f"{failed:,} rows were"
            self.report.noted(f"{refused} refused; the outbox has the reason, and they are retried")
        if handled.blocked is not None:
            raise handled.blocked
        return len(rows) == limit or len(handled.results) < len(rows)


def _reason(error: Exception) -> str:
    """Return why a step failed, without what a statement may quote of a row."""
    return str(error) if isinstance(error, TocsinError) else type(error).__name__


_running: set[Relay] = set()


def _measure_lags() -> None:
    """Set the gauge when it is read: while an outbox is away, nobody measures it."""
    for name, lag in (relay.lag for relay in _running):
        metrics.relay_lag.set((name,), lag)


before_read(_measure_lags)
