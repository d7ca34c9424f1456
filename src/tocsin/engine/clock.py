"""The clock. Everything that decides by time takes it as an argument."""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TypeAlias

from tocsin.engine.duty import repeat
from tocsin.store.pool import Connection, Pool

Clock: TypeAlias = Callable[[], datetime]

MEASURE_SECONDS = 10.0

# The time of a sleeping machine counts where the system can tell.
_SINCE_BOOT = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def utc_now() -> datetime:
    """Return the current time in UTC by the clock of this machine."""
    return datetime.now(UTC)


def since_boot() -> float:
    """Return the seconds since this machine started, which no change of its clock affects."""
    return time.clock_gettime(_SINCE_BOOT)


class DatabaseClock:
    """The database's clock, measured now and then and carried on by the time since boot of this machine.

    Leases and due times of all processes are compared by it, so the clocks of their machines may be off by
    any amount. The database read its clock between the question and the answer: that bounds the difference
    from both sides, and the estimate moves only as far as a measurement proves it wrong. It is off by no more
    than the duration of the last measurement, and by the drift of a machine's oscillator since.
    """

    def __init__(self, pool: Pool, elapsed: Callable[[], float] = since_boot) -> None:
        self._pool = pool
        self._elapsed = elapsed
        self._ahead: float | None = None

    def __call__(self) -> datetime:
        """Return the time of the database."""
        if self._ahead is None:
            raise RuntimeError("the clock of the database is measured before it is read")
        return datetime.fromtimestamp(self._elapsed() + self._ahead, UTC)

    async def measure(self, connection: Connection) -> None:
        """Compare with the database by one round trip."""
        asked = self._elapsed()
        read: datetime = await connection.fetchval("select clock_timestamp()")
        answered = self._elapsed()
        stamp = read.timestamp()
        least, most = stamp - answered, stamp - asked
        ahead = (least + most) / 2 if self._ahead is None else self._ahead
        self._ahead = min(max(ahead, least), most)

    async def run(self) -> None:
        """Measure until cancelled; while the database is away, the last measurement holds."""
        await repeat(self._measure, name="database clock", every=MEASURE_SECONDS)

    async def _measure(self) -> None:
        async with self._pool.acquire() as connection:
            await self.measure(connection)
