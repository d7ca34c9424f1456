"""How far the clock of the database is ahead of this process's own."""

import math
from collections.abc import Callable

from tocsin.store.pool import Connection

DRIFT = 1e-4
PRECISE = 0.005
"""Bounds that are closer together need no further samples."""
SAMPLES = 5
"""After so many, the way to the database is as long as it seems."""
FORGET_SECONDS = 30.0

_CLOCK = "select extract(epoch from clock_timestamp())::double precision"


class DatabaseClock:
    """Bounds of the difference between two clocks, narrowed by each answer of the database.

    The time in an answer was read between the request and the answer: one that a busy process reads late
    shows little. So the closest of the latest bounds count. Clocks drift, so old bounds widen.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self.least_ahead = -math.inf
        self.most_ahead = math.inf
        self._recorded_at = -math.inf
        self._samples = 0

    @property
    def uncertainty(self) -> float:
        """How far the bounds are apart."""
        return self.most_ahead - self.least_ahead

    def record(self, asked_at: float, database_now: float) -> None:
        """Narrow the bounds by an answer that has just arrived."""
        now = self._monotonic()
        since = now - self._recorded_at
        self._samples = 1 if since > FORGET_SECONDS else self._samples + 1
        self._recorded_at = now
        least, most = database_now - now, database_now - asked_at
        self.least_ahead = max(self.least_ahead - since * DRIFT, least)
        self.most_ahead = min(self.most_ahead + since * DRIFT, most)
        if self.least_ahead > self.most_ahead:
            # One of the clocks was set.
            self.least_ahead, self.most_ahead, self._samples = least, most, 1

    async def measure(self, connection: Connection) -> None:
        """Ask the database for its time until the bounds are close together, a few times at most."""
        while self._is_unknown():
            asked_at = self._monotonic()
            self.record(asked_at, await connection.fetchval(_CLOCK))

    def _is_unknown(self) -> bool:
        if self._monotonic() - self._recorded_at > FORGET_SECONDS:
            return True
        return self.uncertainty > PRECISE and self._samples < SAMPLES
