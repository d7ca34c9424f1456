"""Lets held deliveries go: when a toggle is switched on, a provider is back, the one before is settled."""

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeAlias

import structlog

from tocsin.domain.toggles import ChannelToggle, ProviderToggle, TypeToggle, read_toggle
from tocsin.engine.clock import Clock
from tocsin.engine.settle.settlements import BUSY, CIRCUIT
from tocsin.engine.toggles.toggles import Toggles
from tocsin.engine.wake import Wake
from tocsin.store.deliveries.fates import mend
from tocsin.store.deliveries.holds import MOST_AT_ONCE, held_by, keys_in_order, release, release_next
from tocsin.store.pool import DATABASE_FAULTS, Connection, Pool

SWEEP_SECONDS = 1.0
IN_ORDER = "order"
IN_DIGEST = "digest"
_NO_TOGGLES = {IN_ORDER, IN_DIGEST}

Valve: TypeAlias = Callable[[str], int]
"""Tells how much of what a circuit or a full lane holds may be let go now."""

_log = structlog.stdlib.get_logger(__name__)


class Releaser:
    """Looks every second, and at once when a toggle changes.

    Settling lets the next of a row go by itself; the sweep is for what a crash left behind, and for a
    delivery that was set aside in the very moment in which the one before it was settled.
    """

    def __init__(self, pool: Pool, toggles: Toggles, wake: Wake, valve: Valve, clock: Clock) -> None:
        self._pool = pool
        self._toggles = toggles
        self._wake = wake
        self._valve = valve
        self._clock = clock
        self._changed = asyncio.Event()
        self._after_key = ""
        self._after_row = ""

    def look(self) -> None:
        """Look now."""
        self._changed.set()

    async def run(self) -> None:
        """Let go until cancelled."""
        while True:
            try:
                await self._sweep()
            except DATABASE_FAULTS as error:
                _log.warning("releasing failed, trying again", error=repr(error))
            try:
                async with asyncio.timeout(SWEEP_SECONDS):
                    await self._changed.wait()
            except TimeoutError:
                continue
            self._changed.clear()

    async def _sweep(self) -> None:
        async with self._pool.acquire() as connection:
            holders = await held_by(connection)
            released = await self._by_provider(connection, holders)
            on = [holder for holder in holders if self._is_toggle(holder) and self._is_on(holder)]
            for holder in on:
                while count := await release(connection, holder, self._clock()):
                    released += count
                    self._wake.set()
            if IN_ORDER in holders:
                keys = await keys_in_order(connection, self._after_row)
                self._after_row = keys[-1] if keys else ""
                released += await release_next(connection, keys, self._clock())
            if IN_DIGEST in holders:
                self._after_key, promoted = await mend(connection, self._after_key, self._clock())
                released += promoted
        if released:
            _log.info("released", deliveries=released, toggles=on)
            self._wake.set()

    async def _by_provider(self, connection: Connection, holders: Sequence[str]) -> int:
        """Let go of what a circuit or a full lane holds, as much as can be used."""
        released = 0
        for holder in holders:
            while holder.startswith((CIRCUIT, BUSY)) and (most := self._valve(holder)):
                count = await release(connection, holder, self._clock(), most)
                released += count
                if count < MOST_AT_ONCE:
                    break
                self._wake.set()
        return released

    def _is_toggle(self, holder: str) -> bool:
        return holder not in _NO_TOGGLES and not holder.startswith((CIRCUIT, BUSY))

    def _is_on(self, holder: str) -> bool:
        """Tell whether what holds a delivery would still hold it; the claim decides anew in any case."""
        match read_toggle(holder):
            case TypeToggle(type=kind, channel=channel):
                return self._toggles.is_on(kind, channel or "push")
            case ProviderToggle(provider=provider):
                return self._toggles.provider_on(provider)
            case ChannelToggle(channel=channel):
                return self._toggles.is_on("", channel)
            case _:
                return True
