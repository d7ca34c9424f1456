"""The intents that are queued and not yet answered."""

from collections import deque
from collections.abc import Sequence

import msgspec

from tocsin.client.calls import Prepared, prepare, send_prepared
from tocsin.client.errors import QueueFullError, UnavailableError, UnsentError
from tocsin.client.exchange import Flow
from tocsin.client.intents import Intent, Refusal
from tocsin.domain.errors import TocsinError
from tocsin.wire.answers import LARGEST_BATCH, Answer, Conflict, Invalid


class QueueLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How many intents may be queued, how long a batch is collected, and the delay after a failure."""

    bound: int = 10_000
    linger_seconds: float = 0.1
    trouble_seconds: float = 5.0

    def __post_init__(self) -> None:
        if self.bound < 1 or self.linger_seconds < 0 or self.trouble_seconds < 0:
            raise ValueError(f"a queue needs room for at least 1 and delays of 0 s or more, not {self}")


class Buffer:
    """Intents in the order they were queued, and those that were refused."""

    def __init__(self, bound: int) -> None:
        self._bound = bound
        self._waiting: deque[Prepared] = deque()
        self._being_sent = 0
        self._refused: deque[Refusal] = deque(maxlen=bound)

    @property
    def is_full(self) -> bool:
        """Whether no more may be queued; a batch being sent counts until it is answered."""
        return len(self._waiting) + self._being_sent >= self._bound

    @property
    def fills_a_batch(self) -> bool:
        """Whether a full batch is queued."""
        return len(self._waiting) >= LARGEST_BATCH

    def add(self, intent: Intent) -> None:
        """Queue an intent; raise if it cannot be encoded."""
        self._waiting.append(prepare(intent))

    def drain(self) -> Flow[None]:
        """Send what is queued, batch by batch; a batch that was not answered stays queued."""
        while self._waiting:
            batch = [self._waiting.popleft() for _ in range(min(len(self._waiting), LARGEST_BATCH))]
            self._being_sent = len(batch)
            try:
                answers = yield from send_prepared(batch)
            except BaseException:
                self._waiting.extendleft(reversed(batch))
                raise
            finally:
                self._being_sent = 0
            self._note(batch, answers)

    def make_room(self) -> Flow[None]:
        """Send what is queued, so that more can be; raise that the queue is full if it cannot be sent."""
        try:
            yield from self.drain()
        except UnavailableError as error:
            raise QueueFullError(self._bound) from error

    def flush(self) -> Flow[None]:
        """Send what is queued; raise what was refused since the last time."""
        yield from self.drain()
        self._raise_refused()

    def finish(self) -> Flow[None]:
        """Send what is queued; if it cannot be sent, remove everything that was not accepted and raise it."""
        try:
            yield from self.drain()
        except TocsinError as error:
            unsent = [each.intent for each in self._waiting]
            self._waiting.clear()
            raise UnsentError(self._take_refused(), unsent) from error
        self._raise_refused()

    def _raise_refused(self) -> None:
        if refused := self._take_refused():
            raise UnsentError(refused)

    def _take_refused(self) -> tuple[Refusal, ...]:
        refused = tuple(self._refused)
        self._refused.clear()
        return refused

    def _note(self, batch: Sequence[Prepared], answers: Sequence[Answer]) -> None:
        for each, answer in zip(batch, answers, strict=True):
            if isinstance(answer, Conflict | Invalid):
                self._refused.append(Refusal(each.intent, answer))
