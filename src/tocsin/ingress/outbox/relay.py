"""Carries what waits in one application's outbox into Tocsin."""

import asyncio
from datetime import timedelta

import asyncpg
import structlog

from tocsin.domain.errors import DatabaseError
from tocsin.engine.clock import Clock
from tocsin.engine.wake import Bell
from tocsin.ingress.outbox import rows as outbox_rows
from tocsin.ingress.outbox.handover import Handover, NotTakingError
from tocsin.ingress.outbox.install import channel
from tocsin.ingress.outbox.rows import outbox_connection
from tocsin.ingress.outbox.settings import OutboxSettings
from tocsin.ingress.outbox.table import OutboxUnfitError, Table, inspect
from tocsin.store.pool import DATABASE_FAULTS, PoolSettings

LANES = 2
FIRST_PAUSE = 0.25
LONGEST_PAUSE = 15.0
STOP_SECONDS = 20.0
PRUNE_SECONDS = 3_600.0
PRUNE_AT_ONCE = 1_000

_log = structlog.stdlib.get_logger(__name__)


class Relay:
    """Reads one outbox until stopped; any number of them, in any number of processes, may share it.

    The rows of a batch stay locked while they are accepted: one transaction in the application's database for
    the few milliseconds of one in Tocsin's. A lease would need a column that a table of somebody else's
    does not have, two more writes a row, and its time to run out after a crash; a lock is gone at once.
    """

    def __init__(
        self, name: str, settings: OutboxSettings, *, handover: Handover, pool: PoolSettings, clock: Clock
    ) -> None:
        self._name = name
        self._settings = settings
        self._pool = pool
        self._clock = clock
        # While one waits for a database the other works; in order there is only one at a time.
        lanes = 1 if settings.order == "aggregate" else LANES
        self._lanes = [Lane(name, settings, handover=handover, pool=pool, clock=clock) for _ in range(lanes)]

    async def run(self, stop: asyncio.Event) -> None:
        """Relay until `stop`, then finish the batches at hand."""
        async with asyncio.TaskGroup() as group:
            upkeep = [group.create_task(self._listen()), group.create_task(self._prune())]
            carrying = [group.create_task(lane.run(stop)) for lane in self._lanes]
            await stop.wait()
            self._ring()
            _, late = await asyncio.wait(carrying, timeout=STOP_SECONDS)
            for task in (*upkeep, *late):
                task.cancel()

    def _ring(self) -> None:
        for lane in self._lanes:
            lane.bell.set()

    async def _listen(self) -> None:
        """Ring whenever a transaction that wrote into the outbox commits."""
        announced = channel(self._settings.schema, self._settings.table)
        while announced:
            lost = asyncio.Event()
            try:
                async with outbox_connection(self._settings.url, self._pool) as connection:
                    connection.add_termination_listener(lambda _, lost=lost: lost.set())
                    await connection.add_listener(announced, lambda *_: self._ring())
                    self._ring()
                    _log.info("relaying", outbox=self._name)
                    await lost.wait()
            except (DatabaseError, *DATABASE_FAULTS) as error:
                _log.debug("listening to an outbox failed", outbox=self._name, error=str(error))
            await asyncio.sleep(1.0)

    async def _prune(self) -> None:
        """Forget, at the start and every hour, what was published long ago."""
        while self._settings.kept_days:
            before = self._clock() - timedelta(days=self._settings.kept_days)
            try:
                async with outbox_connection(self._settings.url, self._pool) as connection:
                    table = await inspect(connection, self._settings)
                    pruned = 0
                    while count := await outbox_rows.prune(connection, table, before, PRUNE_AT_ONCE):
                        pruned += count
                if pruned:
                    _log.info("pruned an outbox", outbox=self._name, rows=pruned)
            except (DatabaseError, OutboxUnfitError, *DATABASE_FAULTS) as error:
                _log.warning("pruning an outbox failed, trying again", outbox=self._name, error=str(error))
            await asyncio.sleep(PRUNE_SECONDS)


class Lane:
    """Carries one batch after the other over a connection of its own."""

    def __init__(
        self, name: str, settings: OutboxSettings, *, handover: Handover, pool: PoolSettings, clock: Clock
    ) -> None:
        self.bell = Bell()
        self._name = name
        self._settings = settings
        self._handover = handover
        self._pool = pool
        self._clock = clock
        self._pause = FIRST_PAUSE

    async def run(self, stop: asyncio.Event) -> None:
        """Carry until `stop`, connecting anew whenever a database was lost."""
        while not stop.is_set():
            try:
                async with outbox_connection(self._settings.url, self._pool) as connection:
                    table = await inspect(connection, self._settings)
                    await self._carry(connection, table, stop)
            except OutboxUnfitError as error:
                _log.error("an outbox cannot be used", outbox=self._name, error=str(error))
                self._pause = LONGEST_PAUSE
            except NotTakingError as error:
                _log.warning("nothing can be accepted, trying again", outbox=self._name, error=str(error))
            except (DatabaseError, *DATABASE_FAULTS) as error:
                _log.warning("an outbox does not answer, trying again", outbox=self._name, error=str(error))
            await self._rest(stop)

    async def _rest(self, stop: asyncio.Event) -> None:
        try:
            async with asyncio.timeout(self._pause):
                await stop.wait()
        except TimeoutError:
            self._pause = min(2 * self._pause, LONGEST_PAUSE)

    async def _carry(self, connection: asyncpg.Connection, table: Table, stop: asyncio.Event) -> None:
        while not stop.is_set():
            more = await self._batch(connection, table)
            self._pause = FIRST_PAUSE
            if not more:
                await self.bell.wait(self._settings.poll_seconds)

    async def _batch(self, connection: asyncpg.Connection, table: Table) -> bool:
        """Take rows, accept them, mark them, and tell whether there may be more.

        Killed anywhere in between, it is as if the rows were never taken. Only what was accepted stays, and
        is answered as a duplicate to whoever takes them next.
        """
        async with connection.transaction():
            held: list[str] = []
            now = self._clock()
            if self._settings.order == "aggregate":
                if not await outbox_rows.keep_order(connection, table):
                    return False
                held = await outbox_rows.held_back(connection, table, now)
            rows = await outbox_rows.take(connection, table, now=now, limit=self._settings.batch, held=held)
            if not rows:
                return False
            fates = await self._handover.hand_over(rows)
            await outbox_rows.mark(connection, table, fates, self._clock())
        return len(rows) == self._settings.batch or len(fates) < len(rows)
