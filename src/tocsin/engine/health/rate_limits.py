"""Rate limits of providers, shared by all workers."""

import asyncio
import time
from collections.abc import Callable

import structlog

from tocsin.engine.health.database_clock import DatabaseClock
from tocsin.store.health.circuit_breakers import grant
from tocsin.store.pool import DATABASE_FAULTS, Pool
from tocsin.telemetry import metrics

# The window of a rate is a little longer than its second, and a slot that may have been missed by more than
# that is given up: what leaves late would otherwise crowd the slots after it.
LATEST = 0.03
WINDOW = 1 + LATEST
PATIENCE = 0.5

_log = structlog.stdlib.get_logger(__name__)


class RateLimit:
    """Reserves slots of a provider's rate for one worker, in the order in which workers ask.

    Slots are times of the database's clock, of which this process knows bounds: it waits until a slot has
    certainly begun.
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
        self._clock = DatabaseClock(monotonic)

    async def wait(self, count: int) -> None:
        """Return when this worker may send some messages."""
        began = self._monotonic()
        while True:
            try:
                async with self._pool.acquire() as connection:
                    await self._clock.measure(connection)
                    asked_at = self._monotonic()
                    slot = await grant(
                        connection, self._provider, count, self.rate, self._ramp_seconds, within=WINDOW
                    )
            except DATABASE_FAULTS as error:
                _log.warning("rate-limit slot not reserved", provider=self._provider, error=repr(error))
                await asyncio.sleep(PATIENCE)
                continue
            self._clock.record(asked_at, slot.now)
            begins = slot.begins - self._clock.least_ahead
            # Where the database is far away, half of the time is left for what the bounds do not show.
            latest = begins + max(LATEST - self._clock.uncertainty, LATEST / 2)
            await asyncio.sleep(max(0.0, begins - self._monotonic()))
            if self._monotonic() <= latest:
                if metrics.switch.on:
                    metrics.rate_slots.add((self._provider,), count)
                    metrics.rate_waited.add((self._provider,), self._monotonic() - began)
                return
