"""One worker process: its lanes and duties, started and stopped together."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress

import msgspec
import structlog

from tocsin.domain.delivery.message import GivesReceipts, Provider
from tocsin.domain.delivery.receipts import ReceiptSettings
from tocsin.domain.people.devices import DeviceSettings
from tocsin.domain.people.unsubscribe import UnsubscribeSettings
from tocsin.domain.plan import FAN_OUT
from tocsin.domain.retention import RetentionSettings
from tocsin.engine.clock import Clock
from tocsin.engine.dispatch.digest import DigestPayloads
from tocsin.engine.dispatch.lane import Lane, LaneTools
from tocsin.engine.dispatch.render import Renderer
from tocsin.engine.dispatch.rules import DeliveryRules
from tocsin.engine.dispatch.settings import DispatchSettings
from tocsin.engine.duty import RETRIED_FAULTS, Duty
from tocsin.engine.health.circuit_breakers import CircuitBreakers
from tocsin.engine.health.overdue_sweep import Sweep
from tocsin.engine.health.rate_limits import RateLimit
from tocsin.engine.health.settings import HealthSettings, RatesSettings
from tocsin.engine.retention.erase import Eraser
from tocsin.engine.retention.prune import Pruner
from tocsin.engine.settle.expiry import ExpirySweep
from tocsin.engine.settle.receipts import Receipts
from tocsin.engine.settle.release import Releaser
from tocsin.engine.settle.replays import Replayer
from tocsin.engine.settle.sent_counts import SentCounts
from tocsin.engine.settle.writer import SettlementWriter
from tocsin.engine.toggles.toggles import ToggleWatch
from tocsin.engine.wake import Wake
from tocsin.store.pool import Pool
from tocsin.store.secrets.sealing import NO_KEYS, DataKeys

_log = structlog.stdlib.get_logger(__name__)


class WorkerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a worker besides its catalog and providers."""

    dispatch: DispatchSettings = DispatchSettings()
    health: HealthSettings = HealthSettings()
    devices: DeviceSettings = DeviceSettings()
    unsubscribe: UnsubscribeSettings = UnsubscribeSettings()
    receipts: ReceiptSettings = ReceiptSettings()
    rates: RatesSettings = RatesSettings()
    retention: RetentionSettings = RetentionSettings()
    data_keys: DataKeys = NO_KEYS


class Worker:
    """Runs lanes and duties until stopped: no new claims, sends in flight finish and are settled.

    `providers` are those of every channel; `lanes` limits what this worker serves; `more` are further duties.
    """

    def __init__(
        self,
        *,
        pool: Pool,
        wake: Wake,
        watch: ToggleWatch,
        rules: DeliveryRules,
        providers: Mapping[str, Provider],
        settings: WorkerSettings,
        clock: Clock,
        lanes: Collection[str] | None = None,
        more: Sequence[Duty] = (),
    ) -> None:
        self._stop_seconds = settings.dispatch.stop_seconds
        self._breakers = CircuitBreakers(pool, settings.health, clock)
        self._sent = SentCounts(pool)
        self._writer = SettlementWriter(
            pool, clock, on_release=wake.set, raise_alarm=self._breakers.raise_alarm, sent=self._sent
        )
        tools = LaneTools(
            pool=pool,
            rules=rules,
            digests=DigestPayloads(pool, rules.catalog),
            renderer=Renderer(rules.catalog, settings.unsubscribe, settings.data_keys, settings.receipts),
            breakers=self._breakers,
            writer=self._writer,
            settings=settings.dispatch,
            clock=clock,
        )
        self._lanes = [
            Lane(
                name,
                wake.subscribe(name),
                tools,
                provider=providers.get(name),
                rate_limit=RateLimit(pool, name, rate, settings.rates.ramp_seconds)
                if (rate := settings.rates.of(name))
                else None,
            )
            for name in (FAN_OUT, *providers)
            if lanes is None or name in lanes
        ]
        receipts = [
            Receipts(
                provider,
                pool=pool,
                catalog=rules.catalog,
                writer=self._writer,
                breakers=self._breakers,
                clock=clock,
                look_seconds=settings.dispatch.poll_seconds,
            )
            for name, provider in providers.items()
            if isinstance(provider, GivesReceipts) and (lanes is None or name in lanes)
        ]
        self._duties: list[Duty] = [
            wake,
            watch,
            Releaser(pool, rules.catalog, rules.toggles, self._breakers, wake, clock),
            ExpirySweep(pool, rules.providers, rules.toggles, self._breakers, clock),
            Eraser(pool, rules.catalog, clock),
            Pruner(pool, clock, settings.retention, settings.devices),
            Sweep(pool, rules.providers, clock),
            Replayer(pool, clock),
            self._breakers,
            self._sent,
            *receipts,
            *more,
        ]

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop` is set and everything in flight is settled, or the time for that is over."""
        await self._breakers.exchange()
        async with asyncio.TaskGroup() as tasks:
            duties = [tasks.create_task(duty.run()) for duty in self._duties]
            writing = tasks.create_task(self._writer.run())
            dispatching = [tasks.create_task(lane.run()) for lane in self._lanes]
            await stop.wait()
            _log.info("worker stopping")
            for lane in self._lanes:
                lane.stop()
            try:
                async with asyncio.timeout(self._stop_seconds):
                    for each in dispatching:
                        await asyncio.shield(each)
                    self._writer.close()
                    await asyncio.shield(writing)
            except TimeoutError:
                _log.warning("worker stopped early", detail="leases of unsettled deliveries will expire")
                for task in (*dispatching, writing):
                    task.cancel()
            for duty in duties:
                duty.cancel()
        await self._breakers.exchange()
        with suppress(*RETRIED_FAULTS):
            await self._sent.write()
