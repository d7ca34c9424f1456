"""Wakes the idle loops of a worker when a delivery becomes due."""

import asyncio

import asyncpg

from tocsin.engine.duty import repeat
from tocsin.engine.listen import RECONNECT_SECONDS, listen
from tocsin.store.pool import PoolSettings, opened_connection


class Wake:
    """Sets the events of its subscribers at each NOTIFY; they poll as a fallback."""

    def __init__(self, url: str, schema: str, settings: PoolSettings) -> None:
        self._url = url
        self._schema = schema
        self._settings = settings
        self._subscribers: list[asyncio.Event] = []

    def subscribe(self) -> asyncio.Event:
        """Return an event that is set whenever something may be due; its owner clears it."""
        event = asyncio.Event()
        self._subscribers.append(event)
        return event

    def set(self) -> None:
        """Wake every subscriber."""
        for event in self._subscribers:
            event.set()

    async def run(self) -> None:
        """Listen until cancelled."""
        await repeat(self._listen, name="wake", every=RECONNECT_SECONDS)

    async def _listen(self) -> None:
        opened = opened_connection(self._url, self._schema, self._settings)
        await listen(opened, f"{self._schema}_due", self._notified)

    async def _notified(self, _: asyncpg.Connection) -> None:
        self.set()
