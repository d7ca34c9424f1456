"""A lane: what is under way to one provider, and what waits for it in this worker."""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

import structlog

from tocsin.domain.message import GivesReceipts, ManyHosts, Provider
from tocsin.domain.outcome import Outcome, Retry
from tocsin.engine.aim import Ready
from tocsin.engine.circuits import Circuits
from tocsin.engine.clock import Clock
from tocsin.engine.pace import Pace
from tocsin.engine.verdict import BUSY

STUCK_SECONDS = 0.25
"""A lane that was full for so long no longer holds up what goes to others."""

_log = structlog.stdlib.get_logger(__name__)


class Offered(NamedTuple):
    """A message with the circuit it goes through, and since when it is under lease."""

    ready: Ready
    circuit: str
    since: datetime


class Ends(NamedTuple):
    """What becomes of messages that a lane is done with."""

    answered: Callable[["Lane", Ready, Outcome, datetime, datetime], None]
    handed_on: Callable[[Ready], None]


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
        self._room = max(provider.concurrency, provider.limits.batch)
        self._batch = provider.limits.batch
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
        """Tell whether it has been full for a while."""
        if self.free > 0:
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
        self._start([Offered(ready, circuit, now)], now)

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
        if count := self._startable():
            await pace.wait(count)
            batch, now = [self._waiting.popleft() for _ in range(count)], self._clock()
            sending = self._sending(batch, now)
            self._pumping = asyncio.create_task(self._paced(pace))
            self._keep(self._pumping)
            if sending is not None:
                await sending

    def _startable(self) -> int:
        """Tell how many can leave together now."""
        count = min(self._batch, len(self._waiting))
        return count if self._under_way + count <= self._room else 0

    def _start(self, batch: Sequence[Offered], now: datetime) -> None:
        if (sending := self._sending(batch, now)) is not None:
            self._keep(asyncio.create_task(sending))

    def _sending(self, batch: Sequence[Offered], now: datetime) -> Coroutine[None, None, None] | None:
        """Send what was not kept waiting for too long: its lease must outlast the attempt."""
        if now - batch[0].since > self._patience:
            for each in batch:
                self._ends.handed_on(each.ready)
            self._freed()
            return None
        self._under_way += len(batch)
        return self._send(batch, now)

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
            self._circuits.note(each.circuit, provider.name, outcome, answered_at)
            self._ends.answered(self, each.ready, outcome, now, answered_at)
        self._under_way -= len(batch)
        self._pump()
        self._freed()
