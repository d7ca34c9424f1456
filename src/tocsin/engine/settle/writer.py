"""Writes settlements in batches."""

import asyncio
from collections.abc import Callable, Sequence

import asyncpg
import structlog

from tocsin.engine.clock import Clock
from tocsin.store.deliveries import digests
from tocsin.store.deliveries.holds import release_next
from tocsin.store.deliveries.settle import (
    SentDelivery,
    Settled,
    Settlement,
    UnsentDelivery,
    collapse_older,
    settle_sent,
    settle_unsent,
)
from tocsin.store.deliveries.successors import find_followed, reassign
from tocsin.store.pool import DATABASE_FAULTS, Connection, Pool

LINGER = 0.02
LARGEST_WRITE = 1_000
LONGEST_PAUSE = 5.0
LARGEST_BACKLOG = 4_000
"""Settlements that wait to be written; with more, nothing new is claimed."""

_log = structlog.stdlib.get_logger(__name__)


class SettlementWriter:
    """Gathers settlements for a moment and writes them together; a failed write is retried."""

    def __init__(self, pool: Pool, clock: Clock, on_release: Callable[[], None]) -> None:
        self._pool = pool
        self._on_release = on_release
        self._clock = clock
        self._waiting: list[Settlement] = []
        self._some = asyncio.Event()
        self._closed = False
        self._on_progress: list[Callable[[], None]] = []

    def on_progress(self, callback: Callable[[], None]) -> None:
        """Call this whenever a full backlog has room again."""
        self._on_progress.append(callback)

    @property
    def has_room(self) -> bool:
        """Whether the backlog is short enough to claim more."""
        return len(self._waiting) <= LARGEST_BACKLOG

    def put(self, settlement: Settlement) -> None:
        """Queue a settlement to be written."""
        self._waiting.append(settlement)
        self._some.set()

    async def run(self) -> None:
        """Write until closed and nothing waits."""
        while not (self._closed and not self._waiting):
            await self._some.wait()
            if not self._closed and len(self._waiting) < LARGEST_WRITE:
                await asyncio.sleep(LINGER)
            self._some.clear()
            had_room = self.has_room
            batch, self._waiting = self._waiting, []
            if not had_room:
                for callback in self._on_progress:
                    callback()
            if batch:
                await self._write_until_done(batch)

    def close(self) -> None:
        """Write what waits and then end."""
        self._closed = True
        self._some.set()

    async def _write_until_done(self, batch: Sequence[Settlement]) -> None:
        pause = 0.05
        while True:
            try:
                await self._write(batch)
            except asyncpg.DataError as error:
                # The same write would fail again. Apart, only the row at fault is left to its lease, and the
                # others are settled.
                if len(batch) == 1:
                    _log.exception("settlement refused", delivery_id=str(batch[0].id), error=repr(error))
                    return
                for one in batch:
                    await self._write_until_done([one])
                return
            except DATABASE_FAULTS as error:
                _log.warning("settling failed", error=repr(error), deliveries=len(batch))
                await asyncio.sleep(pause)
                pause = min(pause * 2, LONGEST_PAUSE)
            else:
                return

    async def _write(self, batch: Sequence[Settlement]) -> None:
        digest_ids = sorted({each.digest_id for each in batch if each.digest_id})
        async with self._pool.acquire() as connection:
            if digest_ids:
                # The members of a digest end in the transaction in which it does.
                async with connection.transaction():
                    settled = await self._settle(connection, batch)
                    await digests.end(connection, digest_ids, self._clock())
            else:
                # Each statement is a transaction; a repeat finds the lease gone and changes nothing.
                settled = await self._settle(connection, batch)
            if collapsing := [each for part in settled for each in part.collapsing]:
                await collapse_older(connection, collapsing, self._clock())
            if keys := sorted({key for part in settled for key in part.ordering_keys}):
                await release_next(connection, keys, self._clock())
                self._on_release()
        written = sum(part.count for part in settled)
        if written < len(batch):
            _log.warning("lease lost", deliveries=len(batch) - written)

    async def _settle(self, connection: Connection, batch: Sequence[Settlement]) -> list[Settled]:
        sent = [each for each in batch if isinstance(each, SentDelivery)]
        unsent = [each for each in batch if isinstance(each, UnsentDelivery)]
        now = self._clock()
        settled = [await settle_sent(connection, sent, now)] if sent else []
        if unsent:
            followed = await find_followed(connection, unsent)
            unsent = [followed.get(each.id, each) for each in unsent]
            settled.append(await settle_unsent(connection, unsent, now))
            if followed:
                await reassign(connection, list(followed), now)
        return settled
