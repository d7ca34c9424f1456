"""Sets the gauges that are read from the database, when somebody scrapes."""

import asyncio
import time
from collections.abc import Callable, Sequence

import structlog

from tocsin.domain.plan import FAN_OUT
from tocsin.store.deliveries.fan_out import waiting_lanes
from tocsin.store.health import gauges
from tocsin.store.pool import DATABASE_FAULTS, Connection, Pool
from tocsin.telemetry import metrics

KEPT_SECONDS = 5.0
LONGEST_SECONDS = 5.0
MOST_COUNTED = 10_000
MOST_PRODUCERS = 1_000

_STATES = {"closed": 0.0, "half_open": 0.5, "open": 1.0}
_log = structlog.stdlib.get_logger(__name__)


class DatabaseGauges:
    """Queries the database at most every few seconds, however often somebody scrapes.

    While it does not answer, `database_up` is 0 and the gauges have no series: an old value would deceive.
    """

    def __init__(
        self, pool: Pool, providers: Sequence[str], *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._pool = pool
        self._providers = list(providers)
        self._monotonic = monotonic
        self._lock = asyncio.Lock()
        self._read_at: float | None = None

    async def read(self) -> None:
        """Set the gauges, unless they were set a moment ago."""
        async with self._lock:
            if self._read_at is not None and self._monotonic() - self._read_at < KEPT_SECONDS:
                return
            try:
                async with asyncio.timeout(LONGEST_SECONDS), self._pool.acquire() as connection:
                    await self._query(connection)
            except DATABASE_FAULTS as error:
                _log.warning("gauges not read", error=repr(error))
                for gauge in metrics.FROM_DATABASE:
                    gauge.replace({})
                metrics.database_up.set((), 0)
            else:
                metrics.database_up.set((), 1)
            self._read_at = self._monotonic()

    async def _query(self, connection: Connection) -> None:
        lanes = sorted({FAN_OUT, *self._providers, *await waiting_lanes(connection)})
        depths = await gauges.lane_depths(connection, lanes, MOST_COUNTED)
        metrics.queue_depth.replace(
            {
                (depth.lane, waits): count
                for depth in depths
                for waits, count in (("due", depth.due), ("scheduled", depth.scheduled), ("held", depth.held))
            }
        )
        metrics.queue_age.replace({(depth.lane,): depth.oldest_seconds for depth in depths})
        circuits = await gauges.circuit_counts(connection, self._providers, MOST_COUNTED)
        metrics.circuit_open.replace({(each.provider,): _STATES[each.state] for each in circuits})
        metrics.hosts_open.replace({(each.provider,): each.hosts for each in circuits})
        dead = await gauges.dead_letters(connection, MOST_COUNTED)
        metrics.dead_letters.replace({(each.name,): each.count for each in dead})
        alarms = await gauges.standing_alarms(connection, MOST_COUNTED)
        metrics.alarms.replace({(each.name,): each.count for each in alarms})
        producers = await gauges.periodic_lag(connection, MOST_PRODUCERS)
        metrics.periodic_lag.replace({(each.name,): each.late_seconds for each in producers})
        metrics.periodic_failures.replace({(each.name,): each.failures for each in producers})
