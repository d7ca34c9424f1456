"""One worker process: its duties, started and stopped together."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec
import structlog

from tocsin.domain.delivery.message import GivesReceipts, Provider
from tocsin.domain.people.devices import DeviceSettings
from tocsin.domain.people.unsubscribe import UnsubscribeSettings
from tocsin.engine.clock import Clock
from tocsin.engine.dispatch.digest import Digests
from tocsin.engine.dispatch.dispatcher import Dispatcher, DispatchSettings, Tools
from tocsin.engine.dispatch.fan_out import Gate
from tocsin.engine.dispatch.render import Preparer
from tocsin.engine.dispatch.rules import Triage
from tocsin.engine.health.circuit_breakers import Circuits, HealthSettings
from tocsin.engine.health.overdue_sweep import Sweep
from tocsin.engine.health.rate_limits import Pace, RatesSettings
from tocsin.engine.retention.prune import Pruner
from tocsin.engine.settle.receipts import Receipts
from tocsin.engine.settle.release import Releaser
from tocsin.engine.settle.settlements import BUSY, CIRCUIT
from tocsin.engine.settle.writer import Settler
from tocsin.engine.toggles.toggles import ToggleWatch
from tocsin.engine.wake import Wake
from tocsin.store.deliveries.holds import MOST_AT_ONCE
from tocsin.store.pool import Pool

TRY_WITH = 20

_log = structlog.stdlib.get_logger(__name__)


class Duty(Protocol):
    """Something that goes on until it is cancelled."""

    async def run(self) -> None:
        """Go on."""
        ...


class WorkerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker goes by, besides its catalog and its providers."""

    dispatch: DispatchSettings = DispatchSettings()
    health: HealthSettings = HealthSettings()
    devices: DeviceSettings = DeviceSettings()
    unsubscribe: UnsubscribeSettings = UnsubscribeSettings()
    rates: RatesSettings = RatesSettings()


class Worker:
    """Runs until stopped: no new claims, sends under way finish and are settled.

    `channels` names the providers by which each channel is sent; `more` are duties besides its own.
    """

    def __init__(
        self,
        *,
        pool: Pool,
        wake: Wake,
        watch: ToggleWatch,
        triage: Triage,
        channels: Mapping[str, Mapping[str, Provider]],
        settings: WorkerSettings,
        clock: Clock,
        more: Sequence[Duty] = (),
    ) -> None:
        self._clock = clock
        self._stop_seconds = settings.dispatch.stop_seconds
        self._settler = Settler(pool, clock, released=wake.set)
        self._circuits = Circuits(pool, settings.health, clock)
        tools = Tools(
            pool=pool,
            settler=self._settler,
            triage=triage,
            gate=Gate(pool, triage),
            digests=Digests(pool, triage.catalog),
            preparer=Preparer(triage.catalog, settings.unsubscribe),
            circuits=self._circuits,
            settings=settings.dispatch,
            clock=clock,
        )
        paces = {
            name: Pace(pool, name, rate, settings.rates.ramp_seconds)
            for providers in channels.values()
            for name in providers
            if (rate := settings.rates.of(name))
        }
        self._dispatchers = [
            Dispatcher(channel, providers, paces, wake.subscribe(), tools)
            for channel, providers in channels.items()
            if providers
        ]
        releaser = Releaser(pool, triage.toggles, wake, self._may_let_go, clock)
        triage.toggles.on_change(releaser.look)
        receipts = [
            Receipts(
                provider,
                pool=pool,
                catalog=triage.catalog,
                settler=self._settler,
                circuits=self._circuits,
                clock=clock,
                look_seconds=settings.dispatch.poll_seconds,
            )
            for providers in channels.values()
            for provider in providers.values()
            if isinstance(provider, GivesReceipts)
        ]
        pruner = Pruner(pool, clock, settings.devices)
        served = frozenset(channel for channel, providers in channels.items() if providers)
        sweep = Sweep(pool, served, clock)
        self._upkeep: list[Duty] = [wake, watch, releaser, pruner, sweep, self._circuits, *receipts, *more]

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop` is set and everything under way is settled, or the time for that is over."""
        await self._circuits.exchange()
        async with asyncio.TaskGroup() as duties:
            upkeep = [duties.create_task(duty.run()) for duty in self._upkeep]
            settling = duties.create_task(self._settler.run())
            dispatching = [duties.create_task(dispatcher.run()) for dispatcher in self._dispatchers]
            await stop.wait()
            _log.info("stopping: no new claims, finishing what is under way")
            for dispatcher in self._dispatchers:
                dispatcher.stop()
            try:
                async with asyncio.timeout(self._stop_seconds):
                    for each in dispatching:
                        await asyncio.shield(each)
                    self._settler.close()
                    await asyncio.shield(settling)
            except TimeoutError:
                _log.warning("stopped before everything was settled; leases will expire and be taken over")
                for task in (*dispatching, settling):
                    task.cancel()
            await self._circuits.exchange()
            for duty in upkeep:
                duty.cancel()

    def _may_let_go(self, holder: str) -> int:
        """Tell how much of what a circuit or a full lane holds this worker can use now."""
        circuit = holder.removeprefix(CIRCUIT).removeprefix(BUSY)
        name = circuit.partition("/")[0]
        lanes = [lane for each in self._dispatchers for lane in each.lanes if lane.provider.name == name]
        if not lanes:
            # Its provider is set up no more: the claim says so.
            return MOST_AT_ONCE
        if not self._circuits.passes(circuit):
            rests_until = self._circuits.rests_until(circuit)
            # One of them tries it. The first may be too old to be sent, so there are some more.
            return TRY_WITH if rests_until is not None and rests_until <= self._clock() else 0
        for lane in lanes:
            # From now on it takes what it can use as soon as it has room, and not only at the next look.
            lane.owed.add(holder)
        return sum(max(0, lane.free) for lane in lanes)
