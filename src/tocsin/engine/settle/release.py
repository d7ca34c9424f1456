"""Releases held deliveries: when a toggle is on, a host is back, a type known, or the one before settled."""

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import assert_never

import structlog

from tocsin.catalog.catalog import Catalog
from tocsin.domain.catalog import CHANNELS, Channel
from tocsin.domain.delivery.held_by import (
    HeldByDigest,
    HeldByHost,
    HeldByOrder,
    HeldByToggle,
    HeldByUnknownType,
    parse_held_by,
)
from tocsin.domain.toggles import ChannelToggle, ProviderToggle, Toggle, TypeToggle
from tocsin.engine.clock import Clock
from tocsin.engine.duty import repeat
from tocsin.engine.health.circuit_breakers import CircuitBreakers
from tocsin.engine.settle.settlements import LONGEST_DETAIL
from tocsin.engine.toggles.toggles import Toggles
from tocsin.engine.wake import Wake
from tocsin.store.deliveries.holds import MOST_AT_ONCE, held_by, keys_in_order, release, release_next
from tocsin.store.health.provider_health import Alarm, raise_alarms, standing_codes
from tocsin.store.pool import Connection, Pool
from tocsin.store.sources.progress import clear_alarms

SWEEP_SECONDS = 1.0
CATALOG = "catalog"
TYPE_UNKNOWN = "type_unknown"
RELEASED_UNSEEN = 100
"""How many are released at once for a host whose room this worker cannot see."""

REMEMBERED_FOR = timedelta(minutes=1)
"""How long a host that had no room is remembered after nothing is held for it."""

PROBES = 20
"""How many are released to probe a host; the first may be too old to be sent."""

_log = structlog.stdlib.get_logger(__name__)


class Releaser:
    """Looks every second, and at once when a toggle changes.

    Settling releases the next of an ordering group by itself; the sweep finds what a crash left behind.
    """

    def __init__(
        self,
        pool: Pool,
        catalog: Catalog,
        toggles: Toggles,
        breakers: CircuitBreakers,
        wake: Wake,
        clock: Clock,
    ) -> None:
        self._pool = pool
        self._catalog = catalog
        self._unknown: list[str] = []
        self._toggles = toggles
        self._breakers = breakers
        self._wake = wake
        self._clock = clock
        self._changed = asyncio.Event()
        self._after_key = ""
        toggles.on_change(self._on_change)
        breakers.on_room(self._changed.set)

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
            holders = await held_by(connection)
            for holder in holders:
                released += await self._release(connection, holder)
            self._forget_hosts(holders)
            await self._alert(connection, holders)
        if released:
            _log.info("deliveries released", deliveries=released)
            self._wake.set()

    async def _alert(self, connection: Connection, holders: Sequence[str]) -> None:
        """Raise an alarm while deliveries are held because no worker that claimed them knows their type."""
        held = [each for each in map(parse_held_by, holders) if isinstance(each, HeldByUnknownType)]
        unknown = [f"{each.type} v{each.version}" for each in held]
        stands = not unknown or await standing_codes(connection, CATALOG, [TYPE_UNKNOWN])
        if unknown == self._unknown and stands:
            return
        if unknown:
            detail = f"deliveries are held until a worker has {', '.join(unknown)}"
            alarm = Alarm(CATALOG, TYPE_UNKNOWN, detail[:LONGEST_DETAIL])
            await raise_alarms(connection, {alarm: 1}, self._clock())
            _log.error("type unknown", types=unknown, code=TYPE_UNKNOWN, alarm=True)
        else:
            await clear_alarms(connection, [CATALOG], [TYPE_UNKNOWN], self._clock())
        self._unknown = unknown

    def _forget_hosts(self, holders: Sequence[str]) -> None:
        """Forget hosts that hold nothing any more because another worker released it."""
        held = {each.circuit for each in map(parse_held_by, holders) if isinstance(each, HeldByHost)}
        # What was held just now may not be written yet.
        before = self._clock() - REMEMBERED_FOR
        for circuit, since in list(self._breakers.crowded.items()):
            if since < before and circuit not in held:
                del self._breakers.crowded[circuit]

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
                return await release(connection, holder, now, limit=PROBES) if self._probe_due(circuit) else 0
            case HeldByToggle(toggle=toggle):
                return await self._release_all(connection, holder, now, self._channels_on(toggle))
            case HeldByUnknownType(type=name, version=version) if self._catalog.find(name, version) is None:
                return 0
            case HeldByHost(circuit=circuit):
                room = self._breakers.room_at(circuit)
                # What the host cannot take would only be held again; None: another worker serves its lane.
                limit = RELEASED_UNSEEN if room is None else room
                released = await release(connection, holder, now, limit=limit) if limit > 0 else 0
                if released < limit:
                    self._breakers.crowded.pop(circuit, None)
                return released
            case HeldByUnknownType() | None:
                return await self._release_all(connection, holder, now, CHANNELS)

    async def _release_all(
        self, connection: Connection, holder: str, now: datetime, channels: Sequence[Channel]
    ) -> int:
        total = 0
        while channels and (count := await release(connection, holder, now, channels=channels)):
            total += count
            self._wake.set()
            if count < MOST_AT_ONCE:
                break
        return total

    def _probe_due(self, circuit: str) -> bool:
        return self._breakers.is_probe_due(circuit, self._clock())

    def _channels_on(self, toggle: Toggle) -> Sequence[Channel]:
        """List the channels whose deliveries a toggle no longer holds; the claim decides again anyway."""
        match toggle:
            case TypeToggle(type=type_name, channel=channel):
                held = CHANNELS if channel is None else [channel]
                return [each for each in held if self._toggles.is_on(type_name, each)]
            case ProviderToggle(provider=provider):
                return CHANNELS if self._toggles.provider_on(provider) else ()
            case ChannelToggle(channel=channel):
                return [channel] if self._toggles.is_on("", channel) else ()
            case _:
                assert_never(toggle)
