"""A lane: what is under way to one provider, and what waits for it in this worker."""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

import structlog

from tocsin.domain.delivery.message import GivesReceipts, ManyHosts, Provider
from tocsin.domain.delivery.outcome import Outcome, Retry
from tocsin.engine.clock import Clock
from tocsin.engine.dispatch.attempt import Ready
from tocsin.engine.health.circuit_breakers import Circuits
from tocsin.engine.health.rate_limits import Pace
from tocsin.engine.settle.settlements import BUSY

STUCK_SECONDS = 0.25
"""A lane that was nearly full for so long no longer holds up what goes to others."""

CLAIM_SHARE = 4
"""A claim waits until a quarter of what it could take is free, so that claims stay large under load."""

SHARERS = 4
"""By how many the rate of a provider may be shared without anything waiting for too long."""

_log = structlog.stdlib.get_logger(__name__)


class Offered(NamedTuple):
    """A message with the circuit it goes through, and since when it is under lease."""

    ready: Ready
    circuit: str
    since: datetime
    probe: bool = False


class Ends(NamedTuple):
    """What becomes of messages that a lane is done with."""

    answered: Callable[["Lane", Offered, Outcome, datetime, datetime], None]
    handed_on: Callable[[Ready], None]
    barred: Callable[["Lane", Offered, datetime], bool]


class Lane:
    """Keeps at most as many messages under way as the provider takes, and as many again waiting."""

    def __init__(
        self,
        provider: Provider,
        *,
        circuits: Circuits,
        pace: Pace | None,
        patience: timedelta,
        ends: Ends,
        clock: Clock,
        freed: Callable[[], None],
    ) -> None:
        self.provider = provider
        self.owed: set[str] = set()
        self._circuits = circuits
        self._pace = pace
        self._patience = patience
        self._ends = ends
        self._clock = clock
        self._freed = freed
        self._host_of = provider.host_of if isinstance(provider, ManyHosts) else None
        self.receipts_after = provider.receipts_after if isinstance(provider, GivesReceipts) else None
        self._batch = provider.limits.batch
        self._room = max(provider.concurrency, self._batch)
        if pace is not None:
            # What waits for its slot must get it while its lease lasts, even if other workers come first.
            in_time = max(1, int(pace.rate * patience.total_seconds() / SHARERS))
            self._batch = min(self._batch, in_time)
            self._room = min(self._room, max(in_time, self._batch))
        self._waiting: deque[Offered] = deque()
        self._under_way = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._pumping: asyncio.Task[None] | None = None
        self._full_since: float | None = None
        self._stopped = False

    @property
    def room(self) -> int:
        """How many messages may be under way at once."""
        return self._room

    @property
    def free(self) -> int:
        """How many more messages it can use now."""
        return self._room - self._under_way - len(self._waiting)

    @property
    def stuck(self) -> bool:
        """Tell whether it has been nearly full for a while, be it that it stands still or that it is slow."""
        if self.free * CLAIM_SHARE >= self._room:
            self._full_since = None
            return False
        now = time.monotonic()
        if self._full_since is None:
            self._full_since = now
        return now - self._full_since >= STUCK_SECONDS

    @property
    def hungry(self) -> bool:
        """Tell whether it can use again what is held for want of room, or was while its circuit was open."""
        return bool(self.owed) and self.free * 2 >= self._room

    def circuit_of(self, target: str) -> str:
        """Name the circuit that a message to this target goes through."""
        if self._host_of is None:
            return self.provider.name
        return f"{self.provider.name}/{self._host_of(target)}"

    def offer(self, ready: Iterable[Ready], now: datetime) -> tuple[list[Ready], dict[str, list[Ready]]]:
        """Take in what may leave; give back what there is no room for, and what its circuit keeps back."""
        if self._stopped:
            for each in ready:
                self._ends.handed_on(each)
            return [], {}
        too_many: list[Ready] = []
        kept_back: dict[str, list[Ready]] = {}
        for each in ready:
            circuit = self.circuit_of(each.message.target)
            if not self._circuits.passes(circuit):
                kept_back.setdefault(circuit, []).append(each)
            elif len(self._waiting) >= self._room:
                too_many.append(each)
            else:
                self._waiting.append(Offered(each, circuit, now))
        if too_many:
            self.owed.add(f"{BUSY}{self.provider.name}")
        self._pump()
        return too_many, kept_back

    def probe(self, ready: Ready, circuit: str, now: datetime) -> None:
        """Send one message at once, past everything that waits, to see whether its circuit may close."""
        self._start([Offered(ready, circuit, now, probe=True)], now)

    def stop(self) -> None:
        """Start nothing more; hand on what waits."""
        self._stopped = True
        if self._pumping is not None:
            self._pumping.cancel()
        waiting, self._waiting = self._waiting, deque()
        for each in waiting:
            self._ends.handed_on(each.ready)

    async def drain(self) -> None:
        """Wait for what is under way."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    def _pump(self) -> None:
        if self._pace is None:
            while count := self._startable():
                self._start([self._waiting.popleft() for _ in range(count)], self._clock())
        elif self._waiting and (self._pumping is None or self._pumping.done()):
            self._pumping = asyncio.create_task(self._paced(self._pace))
            self._keep(self._pumping)

    async def _paced(self, pace: Pace) -> None:
        """Send the next batch in its slot; a task of its own would leave a turn of the loop later."""
        self._hand_on_stale()
        if count := self._startable():
            await pace.wait(count)
            batch, now = [self._waiting.popleft() for _ in range(count)], self._clock()
            sending = self._sending(batch, now)
            self._pumping = asyncio.create_task(self._paced(pace))
            self._keep(self._pumping)
            if sending is not None:
                await sending

    def _hand_on_stale(self) -> None:
        """Give back what could not leave under its lease any more, before a slot is spent on it."""
        now = self._clock()
        while self._waiting and now - self._waiting[0].since > self._patience / 2:
            self._ends.handed_on(self._waiting.popleft().ready)

    def _startable(self) -> int:
        """Tell how many can leave together now."""
        count = min(self._batch, len(self._waiting))
        return count if self._under_way + count <= self._room else 0

    def _start(self, batch: Sequence[Offered], now: datetime) -> None:
        if (sending := self._sending(batch, now)) is not None:
            self._keep(asyncio.create_task(sending))

    def _sending(self, batch: Sequence[Offered], now: datetime) -> Coroutine[None, None, None] | None:
        """Send what may still leave: its lease must outlast the attempt, and nothing came between."""
        leaving = []
        for each in batch:
            if now - each.since > self._patience:
                self._ends.handed_on(each.ready)
            elif not self._ends.barred(self, each, now):
                leaving.append(each)
        if not leaving:
            self._freed()
            return None
        self._under_way += len(leaving)
        return self._send(leaving, now)

    def _keep(self, task: asyncio.Task[None]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _send(self, batch: Sequence[Offered], now: datetime) -> None:
        provider = self.provider
        try:
            outcomes = await provider.send([each.ready.message for each in batch], now=now)
            if len(outcomes) != len(batch):
                raise RuntimeError(f"{len(outcomes)} outcomes for {len(batch)} messages")  # noqa: TRY301
        except Exception as error:  # noqa: BLE001 - a provider's own mistake must not stop the worker
            _log.exception("provider failed", provider=provider.name)
            outcomes = [Retry("provider_failed", type(error).__name__)] * len(batch)
        answered_at = self._clock()
        for each, outcome in zip(batch, outcomes, strict=True):
            self._circuits.note(each.circuit, provider.name, outcome, answered_at, probe=each.probe)
            self._ends.answered(self, each, outcome, now, answered_at)
        self._under_way -= len(batch)
        self._pump()
        self._freed()
