"""Deletes counters that are past their retention, and retires devices that nobody uses any more."""

from datetime import timedelta

import structlog

from tocsin.domain.people.devices import DeviceSettings
from tocsin.engine.clock import Clock
from tocsin.engine.duty import repeat
from tocsin.store.health.circuit_breakers import forget_circuits
from tocsin.store.health.provider_health import forget_counts
from tocsin.store.limits import prune
from tocsin.store.people.stale_devices import mark_stale, retire_unseen
from tocsin.store.pool import Pool

EVERY_SECONDS = 3_600.0
LIMITS_KEPT = timedelta(days=2)
COUNTS_KEPT = timedelta(days=7)
CIRCUITS_KEPT = timedelta(days=1)
BATCH = 1_000

_log = structlog.stdlib.get_logger(__name__)


class Pruner:
    """Prunes at the start and every hour."""

    def __init__(self, pool: Pool, clock: Clock, devices: DeviceSettings) -> None:
        self._pool = pool
        self._clock = clock
        self._devices = devices

    async def run(self) -> None:
        """Prune until cancelled."""
        await repeat(self._prune, name="prune", every=EVERY_SECONDS)

    async def _prune(self) -> None:
        now = self._clock()
        async with self._pool.acquire() as connection:
            await prune(connection, now - LIMITS_KEPT)
            await forget_counts(connection, now - COUNTS_KEPT)
            await forget_circuits(connection, now - CIRCUITS_KEPT)
            marked = retired = 0
            while count := await mark_stale(connection, now, self._devices, BATCH):
                marked += count
            while count := await retire_unseen(connection, now, self._devices, BATCH):
                retired += count
        if marked or retired:
            _log.info("stale devices updated", marked=marked, retired=retired)
