"""Dispatch: claim what is due, send it, hand the outcome on to be settled."""

import asyncio
import random
import time
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Annotated

import msgspec
import structlog
from msgspec import Meta

from tocsin.domain.catalog import Policies
from tocsin.domain.delivery.message import Message, Provider
from tocsin.domain.delivery.outcome import Outcome, Rejected, Retry
from tocsin.engine.clock import Clock
from tocsin.engine.dispatch.attempt import Aim, Ready, aim_at, log_names
from tocsin.engine.dispatch.claimer import Claim, Claimer
from tocsin.engine.dispatch.digest import Digests
from tocsin.engine.dispatch.fan_out import Gate, Target
from tocsin.engine.dispatch.lane import STUCK_SECONDS, Ends, Lane, Offered
from tocsin.engine.dispatch.lanes import Lanes
from tocsin.engine.dispatch.render import Preparer
from tocsin.engine.dispatch.rules import Admitted, Triage
from tocsin.engine.duty import pause
from tocsin.engine.health.circuit_breakers import Circuits
from tocsin.engine.health.rate_limits import Pace
from tocsin.engine.settle.settlements import handed_on, kept_back, paused, settlement, turned_away
from tocsin.engine.settle.writer import Settler
from tocsin.store.deliveries.holds import release
from tocsin.store.deliveries.settle import SentDelivery, UnsentDelivery
from tocsin.store.pool import DATABASE_FAULTS, Pool

LARGEST_BACKLOG = 4_000
"""Outcomes that wait to be settled; with more, nothing new is claimed."""

SCOUT_SECONDS = 0.1
"""How often lanes with room look past the backlog of others."""

_log = structlog.stdlib.get_logger(__name__)


class DispatchSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a worker claims."""

    lease_seconds: Annotated[float, Meta(gt=0, le=3_600)] = 60.0
    poll_seconds: Annotated[float, Meta(gt=0, le=300)] = 1.0
    stop_seconds: Annotated[float, Meta(gt=0, le=600)] = 20.0


class Tools(msgspec.Struct, frozen=True, kw_only=True):
    """What the dispatchers of all channels share."""

    pool: Pool
    settler: Settler
    triage: Triage
    gate: Gate
    digests: Digests
    preparer: Preparer
    circuits: Circuits
    settings: DispatchSettings
    clock: Clock


class Dispatcher:
    """Sends what is due by one channel."""

    def __init__(
        self,
        channel: str,
        providers: Mapping[str, Provider],
        paces: Mapping[str, Pace],
        wake: asyncio.Event,
        tools: Tools,
    ) -> None:
        self._pool = tools.pool
        self._settler = tools.settler
        self._wake = wake
        self._triage = tools.triage
        self._gate = tools.gate
        self._digests = tools.digests
        self._preparer = tools.preparer
        self._circuits = tools.circuits
        self._settings = tools.settings
        self._clock = tools.clock
        self._room = asyncio.Event()
        self._stopping = False
        self._is_deep = False
        self._scouted_at = 0.0
        lease_for = timedelta(seconds=tools.settings.lease_seconds)
        self._claimer = Claimer(tools.pool, channel, lease_for, tools.clock)
        ends = Ends(self._answered, self._hand_on, self._barred)
        self.lanes = Lanes(
            {
                name: Lane(
                    provider,
                    circuits=tools.circuits,
                    pace=paces.get(name),
                    patience=lease_for / 2,
                    ends=ends,
                    clock=tools.clock,
                    freed=self._freed,
                )
                for name, provider in providers.items()
            },
            tools.circuits,
            tools.clock,
        )
        tools.settler.on_taken(self._room.set)

    async def run(self) -> None:
        """Claim and send until told to stop, then wait for what is under way."""
        while not self._stopping:
            await self._feed()
            await self._scout()
            free = await self._free_capacity()
            claim = await self._claim(free) if free else None
            self._is_deep = claim is not None and len(claim.deliveries) >= free
            if claim is None or not claim.deliveries:
                if not self._stopping:
                    await pause(self._settings.poll_seconds, self._wake)
                    self._wake.clear()
                continue
            await self._dispatch(claim)
        for lane in self.lanes:
            await lane.drain()

    def stop(self) -> None:
        """Claim and start nothing more; what waits is handed on."""
        self._stopping = True
        for lane in self.lanes:
            lane.stop()
        self._room.set()
        self._wake.set()

    async def _free_capacity(self) -> int:
        """Wait for room; none means that everything rests, for a while."""
        while not self._stopping:
            if self._settler.backlog <= LARGEST_BACKLOG:
                if free := self.lanes.claimable():
                    return free
                if self.lanes.resting:
                    return 0
            self._room.clear()
            try:
                async with asyncio.timeout(STUCK_SECONDS):
                    await self._room.wait()
            except TimeoutError:
                continue
        return 0

    async def _claim(self, limit: int) -> Claim | None:
        try:
            return await self._claimer.claim(limit)
        except DATABASE_FAULTS as error:
            _log.warning("claiming failed, trying again", error=repr(error))
            return None

    async def _scout(self) -> None:
        """Let idle lanes look past a backlog that is not theirs, every now and then."""
        now = time.monotonic()
        if not self._is_deep or now - self._scouted_at < SCOUT_SECONDS:
            return
        idle = self.lanes.idle()
        if not idle:
            return
        self._scouted_at = now
        try:
            names = [lane.provider.name for lane in idle]
            claim = await self._claimer.scout(names, sum(lane.free for lane in idle))
        except DATABASE_FAULTS as error:
            _log.warning("looking ahead failed, trying again", error=repr(error))
            return
        if claim.deliveries:
            await self._dispatch(claim)

    async def _feed(self) -> None:
        """Take back what is held for a lane, as much as it has room for, so that others are not held up."""
        for lane in self.lanes:
            for holder in sorted(lane.owed) if lane.hungry else ():
                try:
                    async with self._pool.acquire() as connection:
                        released = await release(connection, holder, self._clock(), lane.room)
                except DATABASE_FAULTS as error:
                    _log.warning("releasing failed, trying again", error=repr(error))
                    break
                if released:
                    break
                lane.owed.discard(holder)

    async def _dispatch(self, claim: Claim) -> None:
        """Dispatch what was claimed; what fails stays under its lease, which ends by itself."""
        try:
            await self._decide(claim)
        except DATABASE_FAULTS as error:
            _log.warning("dispatching failed, left to the lease", error=repr(error))
        except Exception:  # noqa: BLE001 - a mistake of ours with one delivery must not stop the others
            # What is taken over too often is buried.
            _log.exception("dispatching failed, left to the lease")

    async def _decide(self, claim: Claim) -> None:
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
            await self._send_all(await self._digests.gather(passed.targets, now), now)

    async def _send_all(self, targets: Sequence[Target], now: datetime) -> None:
        by_provider: dict[str, list[Ready]] = {}
        for target in targets:
            name = target.device.provider
            if not self._triage.toggles.provider_on(name):
                self._settler.put(paused(target.aim, name, now))
                continue
            match self._preparer.prepare(target):
                case Message() as message:
                    ready = Ready(target.aim, target.admitted.kind, message)
                    by_provider.setdefault(name, []).append(ready)
                case rejected:
                    self._settle(target.aim, rejected, target.admitted.kind.policies, tried_at=now, now=now)
        self.lanes.learn({name: len(waiting) for name, waiting in by_provider.items()})
        for name, waiting in by_provider.items():
            lane = self.lanes[name]
            too_many, blocked = lane.offer(waiting, now)
            for ready in too_many:
                self._settler.put(turned_away(ready.aim, name, now))
            for circuit, messages in blocked.items():
                await self._keep_back(lane, circuit, messages, now)

    async def _keep_back(self, lane: Lane, circuit: str, messages: Sequence[Ready], now: datetime) -> None:
        """Set aside what must not leave now, but try one if its circuit has rested."""
        first, *others = messages
        if await self._circuits.may_probe(circuit, now):
            lane.probe(first, circuit, now)
        else:
            others = [first, *others]
        why = self._circuits.describe(circuit)
        for ready in others:
            self._settler.put(kept_back(ready.aim, circuit, why, now))

    def _answered(
        self, lane: Lane, sent: Offered, outcome: Outcome, tried_at: datetime, now: datetime
    ) -> None:
        ready = sent.ready
        if sent.probe and isinstance(outcome, Retry) and not self._circuits.passes(lane.provider.name):
            # It was sent to see whether the provider is back: that it is not costs the message nothing.
            why = self._circuits.describe(sent.circuit)
            self._settler.put(kept_back(ready.aim, sent.circuit, why, now))
            return
        self._settle(
            ready.aim,
            outcome,
            ready.kind.policies,
            tried_at=tried_at,
            now=now,
            ask_after=lane.receipts_after,
        )

    def _barred(self, lane: Lane, offered: Offered, now: datetime) -> bool:
        """Set aside what waited in its lane while its provider was switched off or its circuit opened."""
        name = lane.provider.name
        if not self._triage.toggles.provider_on(name):
            self._settler.put(paused(offered.ready.aim, name, now))
            return True
        if offered.probe or self._circuits.passes(offered.circuit):
            return False
        why = self._circuits.describe(offered.circuit)
        self._settler.put(kept_back(offered.ready.aim, offered.circuit, why, now))
        return True

    def _freed(self) -> None:
        self._room.set()
        if any(lane.hungry for lane in self.lanes):
            self._wake.set()

    def _hand_on(self, ready: Ready) -> None:
        self._settler.put(handed_on(ready.aim, self._clock()))

    def _settle(
        self,
        aim: Aim,
        outcome: Outcome,
        policies: Policies,
        *,
        tried_at: datetime,
        now: datetime,
        ask_after: timedelta | None = None,
    ) -> None:
        chance = random.random()  # noqa: S311 - spreads load, guards nothing
        settled = settlement(aim, outcome, policies=policies, tried_at=tried_at, now=now, random=chance)
        if ask_after is not None and isinstance(settled, SentDelivery):
            settled = msgspec.structs.replace(settled, ask_at=now + ask_after)
        self._put(settled, aim)
        if isinstance(outcome, Rejected) and outcome.quarantine:
            # A device of another sender means that an app or the settings name the wrong project.
            _log.error("device quarantined", **log_names(aim), code=outcome.code, alarm=True)

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
