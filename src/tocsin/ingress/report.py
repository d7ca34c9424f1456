"""How far behind a reader is with its source, noted by the reader and stored every few seconds."""

import time
from collections.abc import Sequence

from tocsin.engine.duty import repeat
from tocsin.store.health.provider_health import storable
from tocsin.store.pool import Pool
from tocsin.store.sources import lags
from tocsin.store.sources.lags import SourceKind, SourceLag

WRITE_SECONDS = 5.0
LONGEST_ERROR = 500


class SourceReport:
    """What the reader of a source has noted of it; times are by the monotonic clock."""

    def __init__(self, kind: SourceKind, name: str) -> None:
        self._kind: SourceKind = kind
        self._name = name
        self._waiting: int | None = None
        self._or_more = False
        self._oldest_at: float | None = None
        self._measured_at: float | None = None
        self._progressed_at: float | None = None
        self._failing: set[str] = set()
        self._error: tuple[str, float] | None = None
        self._is_mine = True

    def measured(self, waiting: int | None, oldest_age: float | None, *, or_more: bool = False) -> None:
        """Note how many entries wait, and for how many seconds the oldest has; None if that is not known."""
        self._measured_at = now = time.monotonic()
        self._waiting, self._or_more = waiting, or_more
        self._oldest_at = None if oldest_age is None else now - oldest_age
        self._is_mine = True

    def progressed(self) -> None:
        """Note that entries were accepted or refused."""
        self._progressed_at = time.monotonic()

    def noted(self, error: str) -> None:
        """Note an error that does not keep the source from being read."""
        self._error = storable(error)[:LONGEST_ERROR], time.monotonic()

    def failed(self, code: str, error: str) -> None:
        """Note what keeps the source from being read."""
        self.noted(error)
        self._failing.add(code)
        self._is_mine = True

    def recovered(self, code: str) -> None:
        """Note that this no longer keeps it from being read."""
        self._failing.discard(code)

    def left_to_another(self) -> None:
        """Note that another process reads the source: what this one knows of it is not stored."""
        self._is_mine = False
        self._failing.clear()

    def lag(self) -> SourceLag | None:
        """Return what is known, with ages as of now; None if another process knows better."""
        if not self._is_mine:
            return None
        error, error_at = self._error or (None, None)
        return SourceLag(
            kind=self._kind,
            name=self._name,
            waiting=self._waiting,
            waiting_or_more=self._or_more,
            oldest_age=_age(self._oldest_at),
            measured_age=_age(self._measured_at),
            progressed_age=_age(self._progressed_at),
            failing=bool(self._failing),
            last_error=error,
            last_error_age=_age(error_at),
        )


class LagWriter:
    """Stores what the readers of a process report of their sources, in one statement."""

    def __init__(self, pool: Pool, reports: Sequence[SourceReport]) -> None:
        self._pool = pool
        self._reports = reports

    async def run(self) -> None:
        """Write until cancelled."""
        await repeat(self.write, name="source lags", every=WRITE_SECONDS)

    async def write(self) -> None:
        """Write what is known at this moment."""
        known = [lag for report in self._reports if (lag := report.lag()) is not None]
        if known:
            async with self._pool.acquire() as connection:
                await lags.save(connection, known)


def _age(at: float | None) -> float | None:
    return None if at is None else time.monotonic() - at
