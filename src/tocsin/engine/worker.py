"""One worker process: its duties, started and stopped together."""

import asyncio
from collections.abc import Mapping
from datetime import timedelta

import structlog

from tocsin.catalog.catalog import Catalog
from tocsin.domain.message import Provider
from tocsin.engine.claim import Claimer
from tocsin.engine.clock import Clock
from tocsin.engine.dispatch import Dispatcher, DispatchSettings
from tocsin.engine.settle import Settler
from tocsin.engine.wake import Wake
from tocsin.store.pool import Pool

_log = structlog.stdlib.get_logger(__name__)


class Worker:
    """Runs until stopped: no new claims, sends under way finish and are settled."""

    def __init__(
        self,
        *,
        pool: Pool,
        wake: Wake,
        catalog: Catalog,
        providers: Mapping[str, Provider],
        settings: DispatchSettings,
        clock: Clock,
    ) -> None:
        self._wake = wake
        self._settings = settings
        self._settler = Settler(pool, clock)
        self._dispatcher = Dispatcher(
            claimer=Claimer(pool, "push", timedelta(seconds=settings.lease_seconds), clock),
            settler=self._settler,
            wake=wake,
            catalog=catalog,
            providers=providers,
            settings=settings,
            clock=clock,
        )

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop` is set and everything under way is settled, or the time for that is over."""
        async with asyncio.TaskGroup() as duties:
            listening = duties.create_task(self._wake.run())
            settling = duties.create_task(self._settler.run())
            dispatching = duties.create_task(self._dispatcher.run())
            await stop.wait()
            _log.info("stopping: no new claims, finishing what is under way")
            self._dispatcher.stop()
            try:
                async with asyncio.timeout(self._settings.stop_seconds):
                    await asyncio.shield(dispatching)
                    self._settler.close()
                    await asyncio.shield(settling)
            except TimeoutError:
                _log.warning("stopped before everything was settled; leases will expire and be taken over")
                dispatching.cancel()
                settling.cancel()
            listening.cancel()
