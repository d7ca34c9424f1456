"""Releases held deliveries: when a toggle is on, a host is back, or the one before is settled."""

import asyncio

import structlog

from tocsin.domain.delivery.held_by import HeldByDigest, HeldByHost, HeldByOrder, HeldByToggle, parse_held_by
from tocsin.domain.toggles import ChannelToggle, ProviderToggle, TypeToggle
from tocsin.engine.clock import Clock
from tocsin.engine.duty import repeat
from tocsin.engine.health.circuit_breakers import CircuitBreakers
from tocsin.engine.toggles.toggles import Toggles
from tocsin.engine.wake import Wake
from tocsin.store.deliveries.holds import MOST_AT_ONCE, held_by, keys_in_order, release, release_next
from tocsin.store.pool import Connection, Pool

SWEEP_SECONDS = 1.0
PROBES = 20
"""How many are released to probe a host; the first may be too old to be sent."""

_log = structlog.stdlib.get_logger(__name__)


class Releaser:
    """Looks every second, and at once when a toggle changes.

    Settling releases the next of an ordering group by itself; the sweep finds what a crash left behind.
    """

    def __init__(
        self, pool: Pool, toggles: Toggles, breakers: CircuitBreakers, wake: Wake, clock: Clock
    ) -> None:
        self._pool = pool
        self._toggles = toggles
        self._breakers = breakers
        self._wake = wake
        self._clock = clock
        self._changed = asyncio.Event()
        self._after_key = ""
        toggles.on_change(self._on_change)

    async def run(self) -> None:
        """Release until cancelled."""
        await repeat(self._sweep, name="release", every=SWEEP_SECONDS, wake=self._changed)

    def _on_change(self) -> None:
        self._changed.set()
        # A provider that was switched on is claimed for again.
        self._wake.set()

    async def _sweep(self) -> None:
        async with self._pool.acquire() as connection:
            released = 0
            for holder in await held_by(connection):
                released += await self._release(connection, holder)
        if released:
            _log.info("deliveries released", deliveries=released)
            self._wake.set()

    async def _release(self, connection: Connection, holder: str) -> int:
        now = self._clock()
        match parse_held_by(holder):
            case HeldByDigest():
                return 0
            case HeldByOrder():
                keys = await keys_in_order(connection, self._after_key)
                self._after_key = keys[-1] if keys else ""
                return await release_next(connection, keys, now)
            case HeldByHost(circuit=circuit) if not self._breakers.is_closed(circuit):
                return await release(connection, holder, now, PROBES) if self._probe_due(circuit) else 0
            case HeldByToggle() as held if not self._is_on(held):
                return 0
            case HeldByHost() | HeldByToggle() | None:
                total = 0
                while count := await release(connection, holder, now):
                    total += count
                    self._wake.set()
                    if count < MOST_AT_ONCE:
                        break
                return total

    def _probe_due(self, circuit: str) -> bool:
        return self._breakers.is_probe_due(circuit, self._clock())

    def _is_on(self, held: HeldByToggle) -> bool:
        """Return whether the toggle would let deliveries pass now; the claim decides again in any case."""
        match held.toggle:
            case TypeToggle(type=type_name, channel=channel):
                return self._toggles.is_on(type_name, channel or "push")
            case ProviderToggle(provider=provider):
                return self._toggles.provider_on(provider)
            case ChannelToggle(channel=channel):
                return self._toggles.is_on("", channel)
