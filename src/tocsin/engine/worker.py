"""One worker process: its duties, started and stopped together."""

import asyncio
from collections.abc import Mapping
from datetime import timedelta

import structlog

from tocsin.domain.message import Provider
from tocsin.engine.claim import Claimer
from tocsin.engine.clock import Clock
from tocsin.engine.digest import Digests
from tocsin.engine.dispatch import Dispatcher, DispatchSettings
from tocsin.engine.gate import Gate
from tocsin.engine.prune import Pruner
from tocsin.engine.release import Releaser
from tocsin.engine.settle import Settler
from tocsin.engine.toggles import ToggleWatch
from tocsin.engine.triage import Triage
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
        watch: ToggleWatch,
        triage: Triage,
        providers: Mapping[str, Provider],
        settings: DispatchSettings,
        clock: Clock,
    ) -> None:
        self._wake = wake
        self._watch = watch
        self._settings = settings
        self._pruner = Pruner(pool, clock)
        self._releaser = Releaser(pool, triage.toggles, wake, clock)
        triage.toggles.on_change(self._releaser.look)
        self._settler = Settler(pool, clock, released=wake.set)
        self._dispatcher = Dispatcher(
            claimer=Claimer(pool, "push", timedelta(seconds=settings.lease_seconds), clock),
            settler=self._settler,
            wake=wake,
            triage=triage,
            gate=Gate(pool, triage),
            digests=Digests(pool, triage.catalog),
            providers=providers,
            settings=settings,
            clock=clock,
        )

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop` is set and everything under way is settled, or the time for that is over."""
        async with asyncio.TaskGroup() as duties:
            upkeep = [
                duties.create_task(duty.run())
                for duty in (self._wake, self._watch, self._releaser, self._pruner)
            ]
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
            for duty in upkeep:
                duty.cancel()
