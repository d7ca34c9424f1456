"""Settling in batches: outcomes gather for a moment and are written together."""

import asyncio
from collections.abc import Callable, Sequence

import asyncpg
import structlog

from tocsin.engine.clock import Clock
from tocsin.store.deliveries.fates import share_fate
from tocsin.store.deliveries.holds import release_next
from tocsin.store.deliveries.settle import SentDelivery, UnsentDelivery, settle_sent, settle_unsent
from tocsin.store.pool import DATABASE_FAULTS, Pool

LINGER = 0.02
LARGEST_WRITE = 1_000
LONGEST_PAUSE = 5.0

_log = structlog.stdlib.get_logger(__name__)


class Settler:
    """Writes outcomes down; what cannot be written now is kept and tried again."""

    def __init__(self, pool: Pool, clock: Clock, released: Callable[[], None]) -> None:
        self._pool = pool
        self._released = released
        self._clock = clock
        self._waiting: list[SentDelivery | UnsentDelivery] = []
        self._some = asyncio.Event()
        self._closed = False
        self._taken: list[Callable[[], None]] = []

    def on_taken(self, tell: Callable[[], None]) -> None:
        """Add to those who are told that the backlog has become shorter."""
        self._taken.append(tell)

    @property
    def backlog(self) -> int:
        """How many outcomes wait to be written."""
        return len(self._waiting)

    def put(self, settled: SentDelivery | UnsentDelivery) -> None:
        """Hand over an outcome."""
        self._waiting.append(settled)
        self._some.set()

    async def run(self) -> None:
        """Write until closed and nothing waits."""
        while not (self._closed and not self._waiting):
            await self._some.wait()
            if not self._closed and len(self._waiting) < LARGEST_WRITE:
                await asyncio.sleep(LINGER)
            self._some.clear()
            batch, self._waiting = self._waiting, []
            for tell in self._taken:
                tell()
            if batch:
                await self._write_until_done(batch)

    def close(self) -> None:
        """Write what waits and then end."""
        self._closed = True
        self._some.set()

    async def _write_until_done(self, batch: Sequence[SentDelivery | UnsentDelivery]) -> None:
        pause = 0.05
        while True:
            try:
                await self._write(batch)
            except asyncpg.DataError as error:
                # Trying the same again would fail the same. Apart, only the one at fault is left to its
                # lease, and what came with it is settled.
                if len(batch) == 1:
                    _log.exception("settling refused", delivery_id=str(batch[0].id), error=repr(error))
                    return
                for one in batch:
                    await self._write_until_done([one])
                return
            except DATABASE_FAULTS as error:
                _log.warning("settling failed, trying again", error=repr(error), deliveries=len(batch))
                await asyncio.sleep(pause)
                pause = min(pause * 2, LONGEST_PAUSE)
            else:
                return

    async def _write(self, batch: Sequence[SentDelivery | UnsentDelivery]) -> None:
        sent = [settled for settled in batch if isinstance(settled, SentDelivery)]
        unsent = [settled for settled in batch if isinstance(settled, UnsentDelivery)]
        now = self._clock()
        async with self._pool.acquire() as connection:
            # Each statement is a transaction by itself; a repeat finds the lease gone and changes nothing.
            settled = [await settle_sent(connection, sent, now)] if sent else []
            settled += [await settle_unsent(connection, unsent, now)] if unsent else []
            if keys := sorted({key for each in settled for key in each.ordering_keys}):
                await release_next(connection, keys, now)
                self._released()
            if digests := sorted({digest_id for each in settled for digest_id in each.digest_ids}):
                leases = list({each.lease for each in batch})
                if await share_fate(connection, digests, leases, now):
                    self._released()
        written = sum(each.count for each in settled)
        if written < len(batch):
            _log.warning("settled too late for some", late=len(batch) - written)
