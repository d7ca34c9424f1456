"""Expires deliveries that wait past their time to live where no claim sees them."""

from collections.abc import Set as AbstractSet

import structlog

from tocsin.domain.delivery.states import State
from tocsin.domain.plan import FAN_OUT
from tocsin.engine.clock import Clock
from tocsin.engine.duty import repeat
from tocsin.engine.health.circuit_breakers import CircuitBreakers
from tocsin.engine.toggles.toggles import Toggles
from tocsin.store.deliveries.claim import START, Position
from tocsin.store.deliveries.expiry import expire
from tocsin.store.deliveries.fan_out import leave_lane, waiting_lanes
from tocsin.store.pool import Connection, Pool
from tocsin.telemetry import metrics

EVERY_SECONDS = 5.0
AT_ONCE = 2_000

_log = structlog.stdlib.get_logger(__name__)


class ExpirySweep:
    """Walks through what is held, and through lanes that are not claimed for, a bounded stretch at a time.

    A lane whose provider is not configured any more is emptied into `fanout`, which decides again.
    """

    def __init__(
        self,
        pool: Pool,
        providers: AbstractSet[str],
        toggles: Toggles,
        breakers: CircuitBreakers,
        clock: Clock,
    ) -> None:
        self._pool = pool
        self._providers = providers
        self._toggles = toggles
        self._breakers = breakers
        self._clock = clock
        self._cursors: dict[tuple[str, bool], Position] = {}

    async def run(self) -> None:
        """Sweep until cancelled."""
        await repeat(self._sweep, name="expiry", every=EVERY_SECONDS)

    async def _sweep(self) -> bool:
        """Walk a stretch of each lane; return whether more may have to expire right behind one."""
        more = False
        async with self._pool.acquire() as connection:
            for lane in await waiting_lanes(connection):
                if lane != FAN_OUT and lane not in self._providers:
                    await self._empty(connection, lane)
                    continue
                more |= await self._expire(connection, lane, held=True)
                if not self._is_claimed_for(lane):
                    more |= await self._expire(connection, lane, held=False)
        return more

    def _is_claimed_for(self, lane: str) -> bool:
        return self._toggles.provider_on(lane) and self._breakers.is_closed(lane)

    async def _expire(self, connection: Connection, lane: str, *, held: bool) -> bool:
        after = self._cursors.get((lane, held), START)
        walked = await expire(connection, lane, self._clock(), held=held, after=after, limit=AT_ONCE)
        self._cursors[lane, held] = walked.next or START
        if walked.expired:
            _log.info("deliveries expired", lane=lane, held=held, deliveries=walked.expired)
            metrics.settled.add(("", "", lane, State.EXPIRED, ""), walked.expired)
        return walked.expired > 0 and walked.next is not None

    async def _empty(self, connection: Connection, lane: str) -> None:
        moved = await leave_lane(connection, lane, self._clock(), AT_ONCE)
        if moved:
            _log.warning("lane emptied", lane=lane, deliveries=moved)
