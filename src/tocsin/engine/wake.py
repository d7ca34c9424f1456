"""Wakes the idle loops of a worker when a delivery becomes due."""

import asyncio
from collections.abc import Iterable
from collections.abc import Set as AbstractSet

import asyncpg

from tocsin.engine.duty import repeat
from tocsin.engine.listen import RECONNECT_SECONDS, listen
from tocsin.store.pool import PoolSettings, connect, opened_connection


class Wake:
    """Sets the events of its subscribers at each NOTIFY; they poll as a fallback."""

    def __init__(self, url: str, schema: str, settings: PoolSettings) -> None:
        self._url = url
        self._schema = schema
        self._settings = settings
        self._events: dict[str, asyncio.Event] = {}

    def subscribe(self, lane: str) -> asyncio.Event:
        """Return an event that is set whenever something may be due in a lane; its owner clears it."""
        return self._events.setdefault(lane, asyncio.Event())

    def set(self, lanes: Iterable[str] = ()) -> None:
        """Wake some lanes, or all."""
        for lane in lanes or self._events:
            if lane in self._events:
                self._events[lane].set()

    async def run(self) -> None:
        """Listen until cancelled."""
        await repeat(self._listen, name="wake", every=RECONNECT_SECONDS)

    async def _listen(self) -> None:
        opened = opened_connection(connect(self._url, self._schema, self._settings))
        await listen(opened, f"{self._schema}_due", self._notified)

    async def _notified(self, _: asyncpg.Connection, payloads: AbstractSet[str]) -> None:
        """Wake the lanes that a payload lists, or all without one."""
        self.set({lane for payload in payloads for lane in payload.split(",")} - {""})
