"""Dispatch: claim what is due, send it, hand the outcome on to be settled."""

import asyncio
import random
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Annotated

import msgspec
import structlog
from msgspec import Meta

from tocsin.domain.catalog import Policies
from tocsin.domain.message import Message, Provider
from tocsin.domain.outcome import Defer, Outcome, Rejected, Retry
from tocsin.engine.aim import Aim, Ready, aim_at, log_names
from tocsin.engine.claim import Claim, Claimer
from tocsin.engine.clock import Clock
from tocsin.engine.digest import Digests
from tocsin.engine.gate import Gate, Target
from tocsin.engine.pause import Pauses
from tocsin.engine.prepare import prepare
from tocsin.engine.settle import Settler
from tocsin.engine.triage import Admitted, Triage
from tocsin.engine.verdict import paused, settlement
from tocsin.engine.wake import Wake
from tocsin.store.deliveries import SentDelivery, UnsentDelivery
from tocsin.store.pool import DATABASE_FAULTS

CLAIM_SHARE = 4
"""A claim waits until a quarter of the capacity is free, so that claims stay large under load."""

_log = structlog.stdlib.get_logger(__name__)


class DispatchSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a worker claims."""

    lease_seconds: Annotated[float, Meta(gt=0, le=3_600)] = 60.0
    poll_seconds: Annotated[float, Meta(gt=0, le=300)] = 1.0
    stop_seconds: Annotated[float, Meta(gt=0, le=600)] = 20.0


class Dispatcher:
    """Sends the due pushes of one worker process."""

    def __init__(
        self,
        *,
        claimer: Claimer,
        settler: Settler,
        wake: Wake,
        triage: Triage,
        gate: Gate,
        digests: Digests,
        providers: Mapping[str, Provider],
        settings: DispatchSettings,
        clock: Clock,
    ) -> None:
        self._claimer = claimer
        self._settler = settler
        self._wake = wake
        self._triage = triage
        self._gate = gate
        self._digests = digests
        self._catalog = triage.catalog
        self._providers = providers
        self._settings = settings
        self._clock = clock
        self._pauses = Pauses()
        self._sending: set[asyncio.Task[None]] = set()
        self._under_way = 0
        self._room = asyncio.Event()
        self._stopping = False
        self._capacity = sum(provider.concurrency for provider in providers.values())
        settler.on_taken(self._room.set)

    async def run(self) -> None:
        """Claim and send until told to stop, then wait for what is under way."""
        while not self._stopping:
            if rest := self._pauses.shortest(self._providers, self._clock()):
                await self._wake.wait(min(rest.total_seconds(), self._settings.poll_seconds))
                continue
            free = await self._free_capacity()
            claim = await self._claim(free) if free else None
            if claim is None or not claim.deliveries:
                await self._wake.wait(self._settings.poll_seconds)
                continue
            try:
                await self._dispatch(claim)
            except DATABASE_FAULTS as error:
                # What was claimed stays under its lease, which ends by itself.
                _log.warning("dispatching failed, left to the lease", error=repr(error))
        await asyncio.gather(*self._sending)

    def stop(self) -> None:
        """Claim nothing more."""
        self._stopping = True
        self._room.set()
        self._wake.set()

    async def _free_capacity(self) -> int:
        enough = max(1, self._capacity // CLAIM_SHARE)
        while not self._stopping:
            free = self._capacity - self._under_way
            if free >= enough and self._settler.backlog <= 4 * self._capacity:
                return free
            self._room.clear()
            await self._room.wait()
        return 0

    async def _claim(self, limit: int) -> Claim | None:
        try:
            return await self._claimer.claim(limit)
        except DATABASE_FAULTS as error:
            _log.warning("claiming failed, trying again", error=repr(error))
            return None

    async def _dispatch(self, claim: Claim) -> None:
        """Decide about everything claimed and start to send what may leave."""
        now = self._clock()
        admitted: list[Admitted] = []
        for claimed in claim.deliveries:
            if claimed.rescued:
                _log.warning("lease expired, taken over", **log_names(aim_at(claimed, claim.lease, ())))
            match self._triage.decide(claimed, claim, now):
                case Admitted() as one:
                    admitted.append(one)
                case settled:
                    self._put(settled, aim_at(claimed, claim.lease, ()))
        if admitted:
            admitted = await self._digests.one_each(admitted, claim.lease)
            passed = await self._gate.open(admitted, claim.lease, now)
            for stopped in passed.stopped:
                self._settler.put(stopped)
            self._send_all(await self._digests.gather(passed.targets, now), now)

    def _send_all(self, targets: Sequence[Target], now: datetime) -> None:
        by_provider: dict[str, list[Ready]] = {}
        for target in targets:
            name = target.device.provider
            if not self._triage.toggles.provider_on(name):
                self._settler.put(paused(target.aim, name, now))
                continue
            match prepare(self._catalog, target):
                case Message() as message:
                    ready = Ready(target.aim, target.admitted.kind, message)
                    by_provider.setdefault(name, []).append(ready)
                case rejected:
                    self._settle(target.aim, rejected, target.admitted.kind.policies, tried_at=now, now=now)
        for name, waiting in by_provider.items():
            provider = self._providers[name]
            for batch in _chunks(waiting, provider.limits.batch):
                self._under_way += len(batch)
                task = asyncio.create_task(self._send(provider, batch, now))
                self._sending.add(task)
                task.add_done_callback(self._sending.discard)

    async def _send(self, provider: Provider, batch: Sequence[Ready], now: datetime) -> None:
        try:
            if rest := self._pauses.left(provider.name, now):
                outcomes: Sequence[Outcome] = [Defer("provider_paused", rest, pauses=False)] * len(batch)
            else:
                outcomes = await provider.send([ready.message for ready in batch], now=now)
                if len(outcomes) != len(batch):
                    raise RuntimeError(f"{len(outcomes)} outcomes for {len(batch)} messages")  # noqa: TRY301
        except Exception as error:  # noqa: BLE001 - a provider's own mistake must not stop the worker
            _log.exception("provider failed", provider=provider.name)
            outcomes = [Retry("provider_failed", type(error).__name__)] * len(batch)
        answered_at = self._clock()
        for ready, outcome in zip(batch, outcomes, strict=True):
            self._settle(ready.aim, outcome, ready.kind.policies, tried_at=now, now=answered_at)
        self._under_way -= len(batch)
        self._room.set()

    def _settle(
        self, aim: Aim, outcome: Outcome, policies: Policies, *, tried_at: datetime, now: datetime
    ) -> None:
        chance = random.random()  # noqa: S311 - spreads load, guards nothing
        settled = settlement(aim, outcome, policies=policies, tried_at=tried_at, now=now, random=chance)
        self._put(settled, aim)
        if isinstance(outcome, Rejected) and outcome.quarantine:
            # A device of another sender means that an app or the settings name the wrong project.
            _log.error("device quarantined", **log_names(aim), code=outcome.code, alarm=True)
        if isinstance(outcome, Defer) and aim.provider:
            self._pauses.note(aim.provider, outcome, now)

    def _put(self, settled: SentDelivery | UnsentDelivery, aim: Aim) -> None:
        self._settler.put(settled)
        if isinstance(settled, UnsentDelivery):
            _log.info(
                "attempt failed" if settled.outcome else "not sent",
                **log_names(aim),
                state=settled.state,
                reason=settled.reason,
                held_by=settled.held_by,
                code=settled.code,
                detail=settled.detail,
            )


def _chunks(ready: list[Ready], size: int) -> Iterator[list[Ready]]:
    for start in range(0, len(ready), size):
        yield ready[start : start + size]
