"""Prunes what is past its retention, every hour by default, on one worker at a time."""

import asyncio
import time
from collections.abc import Mapping
from datetime import datetime, timedelta

import msgspec
import structlog

from tocsin.domain.people.devices import DeviceSettings
from tocsin.domain.retention import RetentionSettings
from tocsin.domain.timing.schedule import Schedule
from tocsin.engine.clock import Clock
from tocsin.engine.duty import raise_if_cancelled, repeat
from tocsin.engine.periodic.claim import ClaimedRun, claim_run, register
from tocsin.engine.periodic.ends import record_failure, record_success
from tocsin.engine.retention.passes import PassEndedError, Report, RetentionPass
from tocsin.store.people.stale_devices import mark_stale, retire_unseen
from tocsin.store.pool import DATABASE_FAULTS, Pool
from tocsin.store.sources import progress
from tocsin.store.sources.progress import Scheduled

NAME = "retention"
# Its checkpoint: among the notifications accepted before it, those without deliveries were pruned.
SCHEDULED = Scheduled(
    name=NAME, kind="upkeep", schedule=Schedule(RetentionSettings().schedule), value_type="timestamptz"
)
# Longer than the longest batch and the pause after it.
LEASE_FOR = timedelta(minutes=5)
POLL_SECONDS = 30.0
BATCH = 1_000

_log = structlog.stdlib.get_logger(__name__)


class PassRunsError(Exception):
    """Another process runs a pass."""


class Pruner:
    """Runs a pass by the schedule, at the hours that are set, and retires devices that nobody uses any more.

    The lease on the pass is that of the upkeep named `retention`.
    """

    def __init__(
        self,
        pool: Pool,
        clock: Clock,
        settings: RetentionSettings,
        devices: DeviceSettings,
    ) -> None:
        self._pool = pool
        self._clock = clock
        self._settings = settings
        self._scheduled = msgspec.structs.replace(SCHEDULED, schedule=Schedule(settings.schedule))
        self._devices = devices
        self._registered = False

    async def run(self) -> None:
        """Prune until cancelled."""
        await repeat(self._prune_if_due, name="prune", every=POLL_SECONDS)

    async def prune_now(self, report: Report | None = None) -> Mapping[str, int]:
        """Run a pass at once, at any hour; return the pruned rows by table, or raise PassRunsError."""
        async with self._pool.acquire() as connection:
            await register(connection, [self._scheduled], self._clock())
            await progress.request_run(connection, NAME, self._clock())
        if (claimed := await self._claim()) is None:
            raise PassRunsError
        return await self._perform(claimed, report=report)

    async def _prune_if_due(self) -> None:
        now = self._clock()
        async with self._pool.acquire() as connection:
            if not self._registered:
                await register(connection, [self._scheduled], now)
                self._registered = True
            await progress.seen(connection, [NAME], now)
        if self._settings.is_open(now) and (claimed := await self._claim()):
            await self._perform(claimed, at_hours=True)

    async def _claim(self) -> ClaimedRun | None:
        now = self._clock()
        async with self._pool.acquire() as connection:
            for row in await progress.list_progress(connection):
                if row.name == NAME:
                    return await claim_run(
                        connection, row, self._scheduled.schedule, lease_for=LEASE_FOR, now=now
                    )
        return None

    async def _perform(
        self, claimed: ClaimedRun, *, at_hours: bool = False, report: Report | None = None
    ) -> Mapping[str, int]:
        try:
            return await self._prune(claimed, at_hours=at_hours, report=report)
        except asyncio.CancelledError:
            await self._release(claimed)
            raise
        except DATABASE_FAULTS as error:
            raise_if_cancelled()
            await self._fail(claimed, error)
            raise

    async def _prune(
        self, claimed: ClaimedRun, *, at_hours: bool, report: Report | None
    ) -> Mapping[str, int]:
        async def proceed() -> None:
            now = self._clock()
            if at_hours and not self._settings.is_open(now):
                raise PassEndedError("the hours for it are over")
            async with self._pool.acquire() as connection:
                await progress.seen(connection, [NAME], now)
                if not await progress.advance(connection, NAME, claimed.lease, now + LEASE_FOR):
                    raise PassEndedError("the lease was lost")

        began, ended_early = time.monotonic(), None
        work = RetentionPass(
            self._pool,
            self._settings,
            self._clock(),
            proceed=proceed,
            report=report,
            examined_until=claimed.checkpoint.read(datetime, None),
        )
        try:
            await self._retire_devices()
            await work.run()
        except PassEndedError as error:
            ended_early = str(error)
        pruned = dict(work.pruned)
        _log.info(
            "retention pass ended",
            pruned=pruned,
            seconds=round(time.monotonic() - began, 1),
            ended_early=ended_early,
        )
        note = ", ".join(f"{name}: {count}" for name, count in pruned.items()) or "nothing to prune"
        if ended_early is not None:
            note = f"{note}; ended early: {ended_early}"
        now = self._clock()
        async with self._pool.acquire() as connection:
            await progress.advance(
                connection, NAME, claimed.lease, now + LEASE_FOR, msgspec.to_builtins(work.examined_until)
            )
        await record_success(self._pool, NAME, claimed, now, note)
        return pruned

    async def _retire_devices(self) -> None:
        now, marked, retired = self._clock(), 0, 0
        async with self._pool.acquire() as connection:
            while count := await mark_stale(connection, now, self._devices, BATCH):
                marked += count
            while count := await retire_unseen(connection, now, self._devices, BATCH):
                retired += count
        if marked or retired:
            _log.info("stale devices updated", marked=marked, retired=retired)

    async def _fail(self, claimed: ClaimedRun, error: Exception) -> None:
        """Record that a pass failed, so that it is retried after a pause and operators see why."""
        try:
            await record_failure(self._pool, NAME, claimed, error, self._clock())
        except DATABASE_FAULTS as fault:
            # The lease expires instead, and the pass is repeated.
            _log.warning("retention failure not recorded", error=repr(fault))

    async def _release(self, claimed: ClaimedRun) -> None:
        try:
            async with self._pool.acquire() as connection:
                await progress.release(connection, NAME, claimed.lease)
        except DATABASE_FAULTS as error:
            # The lease expires instead.
            _log.warning("retention lease release failed", error=repr(error))
