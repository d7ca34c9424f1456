"""The path of a due delivery: claim, decide, fan out, render, send, settle."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import TypeAlias

import msgspec
import structlog

from tocsin.domain.delivery.message import Message, Provider
from tocsin.domain.delivery.outcome import Rejected
from tocsin.domain.ids import new_lease_id
from tocsin.engine.clock import Clock
from tocsin.engine.dispatch.attempt import Attempt
from tocsin.engine.dispatch.digest import DigestPayloads
from tocsin.engine.dispatch.fan_out import FanOut
from tocsin.engine.dispatch.render import Renderer
from tocsin.engine.dispatch.rules import DeliveryRules
from tocsin.engine.dispatch.sender import Sender
from tocsin.engine.dispatch.settings import DispatchSettings
from tocsin.engine.duty import pause
from tocsin.engine.health.circuit_breakers import PROBE_WITHIN, CircuitBreakers
from tocsin.engine.health.rate_limits import RateLimit
from tocsin.engine.settle.settlements import settle_dead, settle_empty_digest, settle_outcome, settle_refusal
from tocsin.engine.settle.writer import SettlementWriter
from tocsin.providers.isolation import is_cancelled
from tocsin.store.deliveries.claim import START, Position, any_due, claim, take_over
from tocsin.store.pool import DATABASE_FAULTS, Pool, is_transient
from tocsin.telemetry import metrics

MOST_CLAIMED = 500
ROUND = timedelta(seconds=1)
CLAIM_SHARE = 4
"""A claim waits until a quarter of the room is free, so that claims stay large under load."""

LONE_FOR = timedelta(seconds=0.1)
"""How long a delivery dispatched alone keeps others back: after that it only waits for its provider."""

_BatchStep: TypeAlias = Callable[[Sequence[Attempt], datetime], Awaitable[list[Attempt]]]

_log = structlog.stdlib.get_logger(__name__)


class LaneTools(msgspec.Struct, frozen=True, kw_only=True):
    """What the lanes of a worker share."""

    pool: Pool
    rules: DeliveryRules
    digests: DigestPayloads
    renderer: Renderer
    breakers: CircuitBreakers
    writer: SettlementWriter
    settings: DispatchSettings
    clock: Clock


class Lane:
    """Serves the queue of one provider, or `fanout`, which has none and only gives deliveries their lanes.

    A provider that is down, switched off or at its rate is not claimed for: what waits for it is not touched.
    """

    def __init__(
        self,
        name: str,
        woken: asyncio.Event,
        tools: LaneTools,
        provider: Provider | None = None,
        rate_limit: RateLimit | None = None,
    ) -> None:
        self.name = name
        self._woken = woken
        self._rules = tools.rules
        self._digests = tools.digests
        self._renderer = tools.renderer
        self._breakers = tools.breakers
        self._writer = tools.writer
        self._clock = tools.clock
        self._poll_seconds = tools.settings.poll_seconds
        lease_for = timedelta(seconds=tools.settings.lease_seconds)
        self._claimer = Claimer(tools.pool, name, lease_for, tools.clock)
        self._fan_out = FanOut(tools.pool, tools.rules, name)
        self._sender: Sender | None = None
        if provider is not None:
            self._sender = Sender(
                provider,
                breakers=tools.breakers,
                rate_limit=rate_limit,
                toggles=tools.rules.toggles,
                writer=tools.writer,
                patience=lease_for / 2,
                clock=tools.clock,
                on_free=self._freed,
            )
        self._stopping = False
        self._is_full = False
        self._lone: Attempt | None = None
        self._after_lost = False
        tools.writer.on_progress(woken.set)

    async def run(self) -> None:
        """Claim and send until stopped, then wait for what is in flight."""
        while not self._stopping:
            self._woken.clear()
            try:
                if await self._serve():
                    continue
            except DATABASE_FAULTS as error:
                _log.warning("dispatch failed", lane=self.name, error=repr(error))
            except Exception:  # noqa: BLE001 - one delivery must not stop the lane; its lease ends by itself
                _log.exception("dispatch failed", lane=self.name)
            if not self._stopping:
                lone_for = LONE_FOR.total_seconds() if self._lone else self._poll_seconds
                await pause(min(self._poll_seconds, lone_for), self._woken)
        if self._sender is not None:
            await self._sender.drain()

    def stop(self) -> None:
        """Claim and start nothing more; release what is queued."""
        self._stopping = True
        if self._sender is not None:
            self._sender.stop()
        self._woken.set()

    async def _serve(self) -> bool:
        """Dispatch as much as there is room for, or one message as a probe; return False if there is none."""
        if not self._may_claim():
            return False
        if self._breakers.is_closed(self.name):
            limit = self._room()
            self._is_full = limit == 0
            claimed = await self._take(limit) if limit else []
            if claimed:
                await self._dispatch(self._unknown(claimed))
            return bool(claimed)
        if not self._breakers.is_probe_due(self.name, self._clock()) or not await self._claimer.any_due():
            return False
        return await self._breakers.take_probe(self.name, self._clock()) and await self._probe()

    def _may_claim(self) -> bool:
        return not self._stopping and self._writer.has_room and self._rules.toggles.provider_on(self.name)

    async def _probe(self) -> bool:
        """Claim one message after the other until one leaves as the probe; return whether one does.

        The permission to probe is kept meanwhile: very many may be skipped, say for want of a device.
        """
        until = self._clock() + PROBE_WITHIN / 2
        sent = False
        try:
            while not sent and self._may_claim() and self._clock() < until:
                claimed = await self._take(1)
                if not claimed:
                    break
                claimed[0].probe = True
                rendered = await self._dispatch(self._unknown(claimed))
                sent = self._sender is not None and any(map(self._sender.holds, rendered))
        finally:
            # A lane that is cancelled has no time left; the permission lapses.
            if not sent and not is_cancelled():
                await self._breakers.return_probe(self.name, self._clock())
        return sent

    async def _take(self, limit: int) -> list[Attempt]:
        """Claim a lost delivery by itself and, in turn with those, some that nobody has tried to dispatch.

        The next lost one waits until the last has left: if that crashes the process, it was the cause.
        """
        after_lost, self._after_lost = self._after_lost, False
        if after_lost and (claimed := await self._claimer.claim(limit)):
            return claimed
        if self._lone is None or self._has_lone_left():
            self._lone = await self._claimer.take_over()
            if self._lone is not None:
                self._after_lost = True
                return [self._lone]
        return [] if after_lost else await self._claimer.claim(limit)

    def _unknown(self, claimed: Sequence[Attempt]) -> Sequence[Attempt]:
        """List the claimed deliveries of which this worker neither has nor awaits an outcome."""
        ids = [attempt.id for attempt in claimed]
        if not self._writer.knows_any(ids) and (self._sender is None or not self._sender.holds_any(ids)):
            return claimed
        return [attempt for attempt in claimed if not self._is_known(attempt)]

    def _is_known(self, attempt: Attempt) -> bool:
        """Return whether this worker has or awaits an outcome of a claimed delivery, and settle it so."""
        if self._writer.settle_known(attempt.id, attempt.lease, taken_over=attempt.delivery.taken_over):
            return True
        return self._sender is not None and self._sender.adopt(attempt.id, attempt.lease)

    def _room(self) -> int:
        if self._sender is None:
            return MOST_CLAIMED
        most = min(self._sender.room, MOST_CLAIMED)
        free = min(self._sender.free, MOST_CLAIMED)
        return free if free >= max(1, most // CLAIM_SHARE) else 0

    def _freed(self) -> None:
        """Wake the lane if it waits for room and there is enough to claim for, not with every message."""
        if (self._is_full and self._room()) or self._has_lone_left():
            self._woken.set()

    def _has_lone_left(self) -> bool:
        """Return whether the delivery dispatched alone is done, or only waits for its provider."""
        lone = self._lone
        if lone is None:
            return False
        if self._sender is None or not self._sender.holds(lone) or self._clock() - lone.claimed_at > LONE_FOR:
            self._lone = None
        return self._lone is None

    async def _dispatch(self, claimed: Sequence[Attempt]) -> list[Attempt]:
        """Take claimed deliveries to their provider; return those that are rendered.

        A bug in a step ends the one delivery in which it shows. If the database fails, what needed it is left
        to its lease.
        """
        now = self._clock()
        admitted = self._passing(self._decide, claimed, now)
        attempts = [attempt for attempt in admitted if self._is_direct(attempt)]
        if others := [attempt for attempt in admitted if attempt.destination is None]:
            attempts += await self._each(self._place, others, now)
        if digests := [attempt for attempt in attempts if _is_digest(attempt)]:
            attempts = [attempt for attempt in attempts if not _is_digest(attempt)]
            attempts += await self._each(self._fill, digests, now)
        rendered = self._passing(self._render, attempts, now)
        if self._sender is not None:
            await self._sender.send(rendered, now)
        return rendered

    def _passing(
        self, step: Callable[[Attempt, datetime], bool], attempts: Sequence[Attempt], now: datetime
    ) -> list[Attempt]:
        """List the attempts for which a step returns True; a bug in it ends one delivery and no other."""
        passing = []
        for attempt in attempts:
            try:
                if step(attempt, now):
                    passing.append(attempt)
            except Exception as error:  # noqa: BLE001 - whatever it is, the others go on
                self._writer.fail(attempt, error)
        return passing

    def _decide(self, attempt: Attempt, now: datetime) -> bool:
        """Apply the rules; settle the attempt and return False unless it may be sent."""
        delivery = attempt.delivery
        if delivery.fault is not None:
            raise delivery.fault
        if delivery.taken_over:
            _log.warning("lease expired", **attempt.log_fields())
            # Checked before anything that could crash the process once more.
            found = self._rules.catalog.find(delivery.type, delivery.version)
            if (
                found
                and delivery.lost_alone
                and not delivery.recovering
                and attempt.attempts >= found.policies.attempts_for(delivery.channel)
            ):
                self._writer.put(settle_dead(attempt, now))
                return False
        refusal = self._rules.decide_attempt(attempt, now)
        if refusal is not None:
            self._writer.put(settle_refusal(attempt, refusal, now))
        return refusal is None

    async def _each(self, step: _BatchStep, attempts: Sequence[Attempt], now: datetime) -> list[Attempt]:
        """Take attempts through a step together; if that fails for a reason of its own, each by itself."""
        try:
            return await step(attempts, now)
        except Exception as error:  # noqa: BLE001 - whatever it is, the others go on
            if is_transient(error):
                _log.warning("dispatch failed", lane=self.name, deliveries=len(attempts), error=repr(error))
                return []
            if len(attempts) > 1:
                return [taken for each in attempts for taken in await self._each(step, [each], now)]
            self._writer.fail(attempts[0], error)
            return []

    async def _place(self, attempts: Sequence[Attempt], now: datetime) -> list[Attempt]:
        """Fan out; settle what a limit stopped."""
        fanned_out = await self._fan_out.place(attempts, attempts[0].lease, now)
        for limited in fanned_out.limited:
            stopped, refusal = limited.attempt, limited.refusal
            self._writer.settle(stopped, partial(settle_refusal, stopped, refusal, now))
        return fanned_out.attempts

    async def _fill(self, attempts: Sequence[Attempt], now: datetime) -> list[Attempt]:
        """Fill digests with their members; settle those that have none left."""
        members = await self._digests.close(attempts, now)

        def fill(attempt: Attempt, now: datetime) -> bool:
            has_members = self._digests.fill(attempt, members)
            if not has_members:
                self._writer.put(settle_empty_digest(attempt, now))
            return has_members

        return self._passing(fill, attempts, now)

    def _is_direct(self, attempt: Attempt) -> bool:
        """Set the destination of an attempt that needs no write before it is sent; False for any other."""
        is_direct = (
            len(attempt.destinations) == 1
            and attempt.destinations[0].provider == self.name
            and not attempt.limited
            and (attempt.delivery.device_id is not None or not attempt.delivery.order_blockers)
        )
        if is_direct:
            attempt.destination = attempt.destinations[0]
        return is_direct

    def _render(self, attempt: Attempt, now: datetime) -> bool:
        """Render the message; settle the attempt and return False if that fails."""
        if attempt.type is None or attempt.destination is None:
            raise RuntimeError("an attempt is decided and has its device before it is rendered")
        rendered = self._renderer.render(attempt, attempt.type, attempt.destination)
        match rendered:
            case Message():
                attempt.message = rendered
                return True
            case Rejected():
                attempt.tried_at = now
                self._writer.put(settle_outcome(attempt, rendered, now=now, random=0.0))
                return False


def _is_digest(attempt: Attempt) -> bool:
    return attempt.type is not None and attempt.type.policies.digest is not None


class Claimer:
    """Takes leases on due deliveries of a lane, in the order they fell due.

    Before the oldest delivery that waits, the due index is littered with entries of
    those already sent, until vacuum removes them. A claim therefore continues where the last
    one ended instead of at the head. It starts again when a claim comes up short and
    at least once a second, so that deliveries that fell due late are found too. Deliveries that lost
    their lease are found by a statement of their own, one at a time.
    """

    def __init__(self, pool: Pool, lane: str, lease_for: timedelta, clock: Clock) -> None:
        self._pool = pool
        self._lane = lane
        self._lease_for = lease_for
        self._clock = clock
        self._after = START
        self._round_began: datetime | None = None
        self._none_lost_at: datetime | None = None

    async def claim(self, limit: int) -> list[Attempt]:
        """Claim at most `limit` deliveries; none means that nothing is due."""
        now = self._clock()
        if self._round_began is None or now - self._round_began >= ROUND:
            self._after, self._round_began = START, now
        attempts = await self._take(now, limit)
        if not attempts and self._after is not START:
            self._after = START
            attempts = await self._take(now, limit)
        if metrics.switch.on and attempts:
            metrics.claim_size.observe((self._lane,), len(attempts))
        if len(attempts) < limit:
            self._after = START
        else:
            last = attempts[-1].delivery
            self._after = Position(last.due_at, last.id)
        return attempts

    async def take_over(self) -> Attempt | None:
        """Claim one delivery whose lease was lost; after finding none, look again a second later."""
        now = self._clock()
        if self._none_lost_at is not None and now - self._none_lost_at < ROUND:
            return None
        lease = new_lease_id()
        async with self._pool.acquire() as connection:
            found = await take_over(connection, self._lane, lease=lease, now=now, until=now + self._lease_for)
        self._none_lost_at = now if found is None else None
        return Attempt.of(found, lease, now) if found else None

    async def any_due(self) -> bool:
        """Return whether a claim would find something, without touching it."""
        async with self._pool.acquire() as connection:
            return await any_due(connection, self._lane, self._clock())

    async def _take(self, now: datetime, limit: int) -> list[Attempt]:
        lease = new_lease_id()
        async with self._pool.acquire() as connection:
            claimed = await claim(
                connection,
                self._lane,
                lease=lease,
                now=now,
                until=now + self._lease_for,
                after=self._after,
                limit=limit,
            )
        return [Attempt.of(delivery, lease, now) for delivery in claimed]
