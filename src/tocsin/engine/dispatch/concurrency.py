"""How many messages may be in flight to a provider at once."""

from collections import deque
from math import sqrt

from tocsin.domain.delivery.outcome import Defer, Outcome, Retry

FIRST = 20
"""In flight at the start, unless less is allowed."""
SLOWER = 2.0
"""How many times its fastest latency a provider may need before it gets fewer messages at once."""
FAILING_SHARE = 0.1
BACK_OFF = 0.7
SLOW_DOWN = 0.9
USED_SHARE = 0.75
"""A lane claims when a quarter of the room is free, so a full one is seldom fuller than this."""
FASTEST_OF = 60.0
"""Seconds for which the fastest latency is remembered: after that, the provider may have become slower."""


class ConcurrencyLimit:
    """Adapts to how a provider copes: grows while its latency holds, shrinks as that rises or it fails.

    It is measured over as many messages as may be in flight. It doubles until the provider first shows strain
    and then grows by its square root.
    """

    def __init__(self, most: int, *, least: int = 1) -> None:
        self._most = max(most, least)
        self._least = least
        self.value = max(least, min(most, FIRST))
        self._doubling = True
        self._fastest: deque[tuple[float, float]] = deque()
        self._messages = self._failed = self._calls = self._busiest = 0
        self._seconds = 0.0

    def occupy(self, in_flight: int) -> None:
        """Record how many are in flight, as some more have started."""
        self._busiest = max(self._busiest, in_flight)

    def record(self, messages: int, seconds: float, now: float, *, failed: int = 0) -> None:
        """Record how long a batch took, by a clock that never goes back, and what the provider failed."""
        self._messages += messages
        self._failed += failed
        if failed < messages:
            self._calls += 1
            self._seconds += seconds
        if self._messages >= self.value:
            self._adapt(now)
            self._messages = self._failed = self._calls = self._busiest = 0
            self._seconds = 0.0

    def _adapt(self, now: float) -> None:
        if self._failed >= self._messages * FAILING_SHARE:
            self._shrink(BACK_OFF, self._least)
        elif self._is_slower(now):
            self._shrink(SLOW_DOWN, min(FIRST, self._most))
        elif self._busiest >= self.value * USED_SHARE:
            more = self.value if self._doubling else max(1, int(sqrt(self.value)))
            self.value = min(self._most, self.value + more)

    def _is_slower(self, now: float) -> bool:
        latency = self._seconds / self._calls
        while self._fastest and self._fastest[-1][1] >= latency:
            self._fastest.pop()
        self._fastest.append((now, latency))
        while self._fastest[0][0] < now - FASTEST_OF:
            self._fastest.popleft()
        return latency > SLOWER * self._fastest[0][1]

    def _shrink(self, share: float, least: int) -> None:
        self._doubling = False
        self.value = max(self._least, min(self.value, max(least, int(self.value * share))))


def is_overload(outcome: Outcome) -> bool:
    """Return whether an outcome says that the provider, not this message, had too much."""
    match outcome:
        case Retry(speaks_against=speaks_against):
            return speaks_against == "provider"
        case Defer(pauses=pauses):
            return pauses
        case _:
            return False
