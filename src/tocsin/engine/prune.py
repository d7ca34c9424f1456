"""Forgets what is over and asked for by nobody."""

import asyncio
from datetime import timedelta

import structlog

from tocsin.engine.clock import Clock
from tocsin.store.limits import prune
from tocsin.store.pool import DATABASE_FAULTS, Pool

EVERY_SECONDS = 3_600.0
KEPT = timedelta(days=2)

_log = structlog.stdlib.get_logger(__name__)


class Pruner:
    """Deletes the counters of windows that ended some days ago."""

    def __init__(self, pool: Pool, clock: Clock) -> None:
        self._pool = pool
        self._clock = clock

    async def run(self) -> None:
        """Prune at the start and every hour until cancelled."""
        while True:
            try:
                async with self._pool.acquire() as connection:
                    await prune(connection, self._clock() - KEPT)
            except DATABASE_FAULTS as error:
                _log.warning("pruning failed, trying again in an hour", error=repr(error))
            await asyncio.sleep(EVERY_SECONDS)
