"""Sends attempts to one provider: as many at once as it takes, at its rate, in batches of its size."""

import asyncio
import random
import time
from collections import Counter, deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from contextlib import aclosing
from datetime import datetime, timedelta
from uuid import UUID

import structlog

from tocsin.domain.decide import Hold, Step
from tocsin.domain.delivery.held_by import HeldByHost
from tocsin.domain.delivery.message import GivesReceipts, ManyHosts, Message, Provider, SendsEach
from tocsin.domain.delivery.outcome import Outcome, Retry, Sent
from tocsin.domain.ids import LeaseId
from tocsin.engine.clock import Clock
from tocsin.engine.dispatch.attempt import Attempt
from tocsin.engine.dispatch.calls import Answered, SendEach, provider_failed, send_together
from tocsin.engine.dispatch.concurrency import ConcurrencyLimit, is_overload
from tocsin.engine.dispatch.in_flight import gauge_in_flight
from tocsin.engine.dispatch.trace import Spans, end_spans, start_spans
from tocsin.engine.health.circuit_breakers import CircuitBreakers, host_circuit
from tocsin.engine.health.rate_limits import RateLimit
from tocsin.engine.settle.report import report_outcomes
from tocsin.engine.settle.settlements import settle_outcome, settle_refusal, settle_untried
from tocsin.engine.settle.writer import SettlementWriter
from tocsin.engine.toggles.toggles import Toggles
from tocsin.store.deliveries.settle import Settlement
from tocsin.store.pool import DATABASE_FAULTS

WORKERS_SHARING_A_RATE = 4
"""By how many workers a rate may be shared without a message waiting longer than its lease."""

_log = structlog.stdlib.get_logger(__name__)


class Sender:
    """Keeps at most as many messages in flight as the provider takes; the rest waits in a short queue."""

    def __init__(
        self,
        provider: Provider,
        *,
        breakers: CircuitBreakers,
        rate_limit: RateLimit | None,
        toggles: Toggles,
        writer: SettlementWriter,
        patience: timedelta,
        clock: Clock,
        on_free: Callable[[], None],
    ) -> None:
        self._provider = provider
        self._breakers = breakers
        self._rate_limit = rate_limit
        self._toggles = toggles
        self._writer = writer
        self._patience = patience
        self._clock = clock
        self._on_free = on_free
        self._host_of = provider.host_of if isinstance(provider, ManyHosts) else None
        self._per_host = provider.concurrency_per_host if isinstance(provider, ManyHosts) else 0
        self._at_host: Counter[str] = Counter()
        if self._host_of is not None:
            breakers.count_room(provider.name, self._room_at)
        self._receipts_after = provider.receipts_after if isinstance(provider, GivesReceipts) else None
        self._send_each = provider.send_each if isinstance(provider, SendsEach) else None
        self._batch = provider.limits.batch
        self._most = max(provider.concurrency, self._batch)
        if rate_limit is not None:
            # A queued message must get its slot while its lease lasts, even if other workers come first.
            in_time = max(1, int(rate_limit.rate * patience.total_seconds() / WORKERS_SHARING_A_RATE))
            # The messages of a batch leave together: a batch must not be more than a second's messages.
            self._batch = min(self._batch, in_time, max(1, int(rate_limit.rate)))
            self._most = min(self._most, max(in_time, self._batch))
        # Hosts that others chose have a latency and faults of their own, which say nothing of the rest.
        self._limit = ConcurrencyLimit(self._most, least=self._batch) if self._host_of is None else None
        self._queue: deque[Attempt] = deque()
        self._attempts: dict[UUID, Attempt] = {}
        self._in_flight = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._pumping: asyncio.Task[None] | None = None
        self._stopped = False
        gauge_in_flight(self)

    @property
    def room(self) -> int:
        """How many messages may be in flight at once."""
        return self._most if self._limit is None else self._limit.value

    @property
    def in_flight(self) -> tuple[str, int]:
        """The provider, and how many messages wait for its answer."""
        return self._provider.name, self._in_flight

    @property
    def free(self) -> int:
        """How many more messages it has room for."""
        return self.room - self._in_flight - len(self._queue)

    async def send(self, attempts: Sequence[Attempt], now: datetime) -> None:
        """Start to send rendered attempts; a host whose circuit breaker is open holds its own."""
        for attempt in attempts:
            try:
                if self._enqueue(attempt, now):
                    continue
                await self._probe(attempt, now)
            except Exception as error:  # noqa: BLE001 - one message must not take the others with it
                self._forget(attempt)
                self._writer.fail(attempt, error)
        self._pump()

    def _enqueue(self, attempt: Attempt, now: datetime) -> bool:
        """Queue an attempt, or put it back; return False for one whose circuit breaker is open."""
        circuit = attempt.circuit = self._circuit(attempt)
        self._attempts[attempt.id] = attempt
        is_crowded = self._host_of is not None and self._occupy_host(circuit, now)
        if self._stopped:
            self._release(attempt, now)
        elif is_crowded:
            self._hold(attempt, f"{circuit} has {self._per_host} messages in flight", now)
        elif attempt.probe or self._breakers.is_closed(circuit):
            self._queue.append(attempt)
        else:
            return False
        return True

    async def _probe(self, attempt: Attempt, now: datetime) -> None:
        """Send an attempt to a host as a probe if one is due, or put it back."""
        if attempt.circuit != self._provider.name and await self._take_probe(attempt.circuit, now):
            attempt.probe = True
            self._start([attempt], self._clock())
        else:
            self._put_back(attempt, now)

    async def _take_probe(self, circuit: str, now: datetime) -> bool:
        try:
            return await self._breakers.take_probe(circuit, now)
        except DATABASE_FAULTS as error:
            _log.warning("circuit not probed", circuit=circuit, error=repr(error))
            return False

    def holds(self, attempt: Attempt) -> bool:
        """Return whether an attempt waits here or is in flight."""
        return attempt.id in self._attempts

    def holds_any(self, ids: Sequence[UUID]) -> bool:
        """Return whether an attempt at one of these deliveries waits here or is in flight."""
        return not self._attempts.keys().isdisjoint(ids)

    def adopt(self, delivery_id: UUID, lease: LeaseId) -> bool:
        """Continue an attempt that is still here under the lease of a later claim; return whether it is."""
        attempt = self._attempts.get(delivery_id)
        if attempt is None:
            return False
        attempt.lease = lease
        return True

    def stop(self) -> None:
        """Start nothing more; release what is queued."""
        self._stopped = True
        if self._pumping is not None:
            self._pumping.cancel()
        now = self._clock()
        queue, self._queue = self._queue, deque()
        for attempt in queue:
            self._release(attempt, now)

    async def drain(self) -> None:
        """Wait for what is in flight."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    def _circuit(self, attempt: Attempt) -> str:
        """Return the name of the circuit breaker: the provider's, or that of the target's host."""
        name = self._provider.name
        return name if self._host_of is None else host_circuit(name, self._host_of(attempt.rendered.target))

    def _pump(self) -> None:
        if self._rate_limit is None:
            while count := self._startable():
                self._start([self._queue.popleft() for _ in range(count)], self._clock())
        elif self._queue and (self._pumping is None or self._pumping.done()):
            self._pumping = asyncio.create_task(self._paced(self._rate_limit))
            self._keep(self._pumping)

    async def _paced(self, rate_limit: RateLimit) -> None:
        """Send the next batch in its slot; a task of its own would send it a turn of the loop later."""
        self._release_stale()
        if count := self._startable():
            await rate_limit.wait(count)
            batch, now = [self._queue.popleft() for _ in range(count)], self._clock()
            _log.debug("rate-limit slot used", provider=self._provider.name, messages=count)
            sending = self._sending(batch, now)
            self._pumping = asyncio.create_task(self._paced(rate_limit))
            self._keep(self._pumping)
            if sending is not None:
                await sending

    def _release_stale(self) -> None:
        """Release what could not be sent under its lease any more, before a slot is spent on it."""
        now = self._clock()
        while self._queue and now - self._queue[0].claimed_at > self._patience / 2:
            self._release(self._queue.popleft(), now)

    def _startable(self) -> int:
        if self._send_each is not None and self._rate_limit is None:
            # Each is a request of its own: together they cost one task, and none waits for another's answer.
            return max(0, min(len(self._queue), self.room - self._in_flight))
        count = min(self._batch, len(self._queue))
        return count if self._in_flight + count <= self.room else 0

    def _start(self, batch: Sequence[Attempt], now: datetime) -> None:
        if (sending := self._sending(batch, now)) is not None:
            self._keep(asyncio.create_task(sending))

    def _sending(self, batch: Sequence[Attempt], now: datetime) -> Coroutine[None, None, None] | None:
        """Send what may still leave: its lease must outlast the attempt, and nothing was switched off."""
        leaving = []
        since = now - self._patience
        is_on, opened = self._toggles.provider_on(self._provider.name), self._breakers.opened
        for attempt in batch:
            if attempt.claimed_at < since:
                self._release(attempt, now)
            elif is_on and (attempt.probe or attempt.circuit not in opened):
                leaving.append(attempt)
            else:
                self._put_back(attempt, now)
        if not leaving:
            self._on_free()
            return None
        self._in_flight += len(leaving)
        if self._limit is not None:
            self._limit.occupy(self._in_flight)
        return self._send(leaving, now)

    def _put_back(self, attempt: Attempt, now: datetime) -> None:
        """Return an attempt that may not leave now to its lane, or hold it for its host."""
        if attempt.circuit == self._provider.name or not self._toggles.provider_on(self._provider.name):
            self._release(attempt, now)
            return
        self._hold(attempt, self._breakers.describe(attempt.circuit), now)

    def _occupy_host(self, circuit: str, now: datetime) -> bool:
        """Count a message for a host; return whether it has more than it may, so that it fills no lane."""
        self._at_host[circuit] += 1
        if self._at_host[circuit] <= self._per_host:
            return False
        self._breakers.crowded[circuit] = now
        return True

    def _room_at(self, circuit: str) -> int:
        return self._per_host - self._at_host[circuit]

    def _hold(self, attempt: Attempt, detail: str, now: datetime) -> None:
        attempt.add_step(Step(rule="provider", result="hold", detail=detail, at=now))
        held = Hold(attempt.steps, HeldByHost(attempt.circuit))
        self._leave(attempt, lambda: settle_refusal(attempt, held, now))

    def _release(self, attempt: Attempt, now: datetime) -> None:
        """Return an attempt to its lane, untried."""
        self._leave(attempt, lambda: settle_untried(attempt, now))

    def _leave(self, attempt: Attempt, build: Callable[[], Settlement]) -> None:
        self._forget(attempt)
        self._writer.settle(attempt, build)

    def _forget(self, attempt: Attempt) -> None:
        if self._attempts.pop(attempt.id, None) is None or self._host_of is None:
            return
        circuit = attempt.circuit
        self._at_host[circuit] -= 1
        if circuit in self._breakers.crowded and self._at_host[circuit] <= self._per_host // 2:
            self._breakers.has_room()
        if not self._at_host[circuit]:
            del self._at_host[circuit]

    def _keep(self, task: asyncio.Task[None]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _send(self, batch: Sequence[Attempt], now: datetime) -> None:
        # The clock of the database may be set back meanwhile.
        began = time.monotonic()
        left = dict(enumerate(batch))
        try:
            spans = start_spans(self._provider.name, batch, now)
            messages = [each.rendered for each in batch]
            if self._send_each is None:
                outcomes = await send_together(self._provider, messages, now)
                self._settle_answered(left, [*enumerate(outcomes)], spans, now, began)
                return
            async with aclosing(self._answers(self._send_each, messages, left, now)) as answers:
                async for answered in answers:
                    self._settle_answered(left, answered, spans, now, began)
        finally:
            # Cancelled, say: what it left here would count as in flight for ever.
            self._in_flight -= len(left)
            for attempt in left.values():
                self._forget(attempt)

    async def _answers(
        self, send_each: SendEach, messages: Sequence[Message], left: Mapping[int, Attempt], now: datetime
    ) -> AsyncGenerator[Answered, None]:
        """Send a batch and yield outcomes as they come; what the provider raises fails those still `left`."""
        try:
            async with aclosing(send_each(messages, now=now)) as answers:
                async for answered in answers:
                    yield answered
            if left:
                raise RuntimeError(f"{len(left)} of {len(messages)} messages have no outcome")  # noqa: TRY301
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - a provider's own mistake is an outcome
            failed = provider_failed(self._provider, error, len(left))
            yield [(place, failed) for place in left]

    def _settle_answered(
        self,
        left: dict[int, Attempt],
        answered: Answered,
        spans: Spans,
        tried_at: datetime,
        began: float,
    ) -> None:
        """Settle the messages of a batch that were answered together, and start others in their place."""
        answered_at = self._clock()
        fresh = [(place, left.pop(place), outcome) for place, outcome in answered if place in left]
        self._in_flight -= len(fresh)
        is_recorded = self._record_sent(fresh, answered_at)
        settlements: list[Settlement] = []
        for _, attempt, outcome in fresh:
            attempt.tried_at = tried_at
            try:
                self._forget(attempt)
                if not is_recorded:
                    circuit, name = attempt.circuit, self._provider.name
                    self._breakers.record(circuit, name, outcome, answered_at, probe=attempt.probe)
                settlements.append(self._settle(attempt, outcome, answered_at))
            except Exception as error:  # noqa: BLE001 - one outcome must not keep the others from being settled
                # What the settlement itself stores is not there yet.
                was_sent = isinstance(outcome, Sent) and outcome.item is None
                self._writer.fail(attempt, error, was_sent=was_sent)
        self._writer.put(*settlements)
        outcomes = [outcome for _, _, outcome in fresh]
        if self._limit is not None:
            ended = time.monotonic()
            failed = sum([is_overload(each) for each in outcomes if not isinstance(each, Sent)])
            self._limit.record(len(fresh), ended - began, ended, failed=failed)
        try:
            end_spans([spans[place] for place, _, _ in fresh] if spans else [], outcomes, answered_at)
            attempts = [attempt for _, attempt, _ in fresh]
            calls = len(fresh) if self._send_each else 1
            report_outcomes(self._provider.name, attempts, outcomes, tried_at, answered_at, calls=calls)
        except Exception:  # noqa: BLE001 - what cannot be reported is settled all the same
            _log.exception("outcomes not reported", provider=self._provider.name, messages=len(fresh))
        self._pump()
        self._on_free()

    def _record_sent(self, answered: Sequence[tuple[int, Attempt, Outcome]], now: datetime) -> bool:
        """Count messages that were answered together, if all were sent and none was a probe.

        Others are recorded one by one, in their order: a success between failures speaks for the provider.
        """
        if any(each.probe or not isinstance(outcome, Sent) for _, each, outcome in answered):
            return False
        for circuit, count in Counter([each.circuit for _, each, _ in answered]).items():
            self._breakers.record_sent(circuit, self._provider.name, count, now)
        return True

    def _settle(self, attempt: Attempt, outcome: Outcome, now: datetime) -> Settlement:
        name = self._provider.name
        is_provider_probe = attempt.probe and attempt.circuit == name
        if is_provider_probe and _was_refused(outcome) and not self._breakers.is_closed(name):
            # It was sent to probe the provider: that it is still down costs the message no attempt.
            return settle_untried(attempt, now)
        chance = random.random()  # noqa: S311 - spreads load, guards nothing
        ask_at = now + self._receipts_after if self._receipts_after else None
        return settle_outcome(attempt, outcome, now=now, random=chance, ask_at=ask_at)


def _was_refused(outcome: Outcome) -> bool:
    """Return whether a message failed for the moment and certainly did not arrive."""
    return isinstance(outcome, Retry) and not outcome.uncertain
