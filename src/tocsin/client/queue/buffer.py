"""What is queued and not yet answered, whoever carries it."""

from collections import deque
from collections.abc import Sequence

import msgspec

from tocsin.client.answers import Answer, Conflict, Invalid, Refusal
from tocsin.client.calls import LARGEST_BATCH, Prepared, prepare, send_prepared
from tocsin.client.errors import TocsinError, UnsentError
from tocsin.client.exchange import Plan
from tocsin.client.intents import Intent


class QueueLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How many intents may wait, how long they wait for company, and how long after trouble."""

    bound: int = 10_000
    linger_seconds: float = 0.1
    trouble_seconds: float = 5.0

    def __post_init__(self) -> None:
        if self.bound < 1 or self.linger_seconds < 0 or self.trouble_seconds < 0:
            raise ValueError(f"a queue needs room for at least 1 and waits of 0 s or more, not {self}")


class Buffer:
    """Intents in the order they were queued, and what was refused of them."""

    def __init__(self, bound: int) -> None:
        self._bound = bound
        self._waiting: deque[Prepared] = deque()
        self._leaving = 0
        self._refused: deque[Refusal] = deque(maxlen=bound)

    @property
    def is_full(self) -> bool:
        """Tell whether no more may wait; what is leaving counts until it is answered."""
        return len(self._waiting) + self._leaving >= self._bound

    @property
    def fills_a_batch(self) -> bool:
        """Tell whether waiting for more company would gain nothing."""
        return len(self._waiting) >= LARGEST_BATCH

    def add(self, intent: Intent) -> None:
        """Let one more wait; one that cannot be written is refused to whoever queues it."""
        self._waiting.append(prepare(intent))

    def drain(self) -> Plan[None]:
        """Send what waits, batch by batch; what was not answered goes on waiting."""
        while self._waiting:
            batch = [self._waiting.popleft() for _ in range(min(len(self._waiting), LARGEST_BATCH))]
            self._leaving = len(batch)
            try:
                answers = yield from send_prepared(batch)
            except BaseException:
                self._waiting.extendleft(reversed(batch))
                raise
            finally:
                self._leaving = 0
            self._note(batch, answers)

    def raise_refused(self) -> None:
        """Tell once what was refused since the last time."""
        refused = tuple(self._refused)
        self._refused.clear()
        if refused:
            raise UnsentError(refused)

    def raise_unsent(self, trouble: TocsinError) -> None:
        """Give back everything that was not accepted, for good."""
        unsent, refused = [each.intent for each in self._waiting], tuple(self._refused)
        self._waiting.clear()
        self._refused.clear()
        raise UnsentError(refused, unsent) from trouble

    def _note(self, batch: Sequence[Prepared], answers: Sequence[Answer]) -> None:
        for each, answer in zip(batch, answers, strict=True):
            if isinstance(answer, Conflict | Invalid):
                self._refused.append(Refusal(each.intent, answer))
