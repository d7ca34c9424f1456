"""Rate limits of providers, shared by all workers."""

import asyncio
import math
import time
from collections.abc import Callable

import structlog

from tocsin.store.health.circuit_breakers import grant
from tocsin.store.pool import DATABASE_FAULTS, Pool
from tocsin.telemetry import metrics

# The window of a rate is a little longer than its second, and a slot that is missed by more than this is
# given up: what leaves late would otherwise crowd the slots after it.
WINDOW = 1.03
LATEST = 0.015
PATIENCE = 0.5
DRIFT = 1e-4

_log = structlog.stdlib.get_logger(__name__)


class RateLimit:
    """Reserves slots of a provider's rate for one worker, in the order in which workers ask.

    Slots are times of the database's clock. Each answer shows how far that is ahead of this process's own,
    less the time that the answer took: so the largest of the latest values counts.
    """

    def __init__(
        self,
        pool: Pool,
        provider: str,
        rate: float,
        ramp_seconds: float,
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._pool = pool
        self._provider = provider
        self.rate = rate
        self._ramp_seconds = ramp_seconds
        self._monotonic = monotonic
        self._ahead = -math.inf
        self._judged_at = monotonic()

    async def wait(self, count: int) -> None:
        """Return when this worker may send some messages."""
        began = self._monotonic()
        while True:
            try:
                async with self._pool.acquire() as connection:
                    slot = await grant(
                        connection, self._provider, count, self.rate, self._ramp_seconds, within=WINDOW
                    )
            except DATABASE_FAULTS as error:
                _log.warning("rate-limit slot not reserved", provider=self._provider, error=repr(error))
                await asyncio.sleep(PATIENCE)
                continue
            begins = slot.begins - self._judge(slot.now)
            await asyncio.sleep(max(0.0, begins - self._monotonic()))
            if self._monotonic() - begins <= LATEST:
                if metrics.switch.on:
                    metrics.rate_slots.add((self._provider,), count)
                    metrics.rate_waited.add((self._provider,), self._monotonic() - began)
                return

    def _judge(self, database_now: float) -> float:
        """Return by how much the database's clock is ahead; clocks drift, so an old value fades."""
        now = self._monotonic()
        faded = self._ahead - (now - self._judged_at) * DRIFT
        self._ahead, self._judged_at = max(faded, database_now - now), now
        return self._ahead
