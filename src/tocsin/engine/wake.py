"""Wakes an idle worker when something falls due: by NOTIFY, and by the clock as a fallback."""

import asyncio

import asyncpg
import structlog

from tocsin.domain.errors import DatabaseError
from tocsin.store.pool import PoolSettings, connect

RECONNECT_AFTER = 1.0

_log = structlog.stdlib.get_logger(__name__)


class Bell:
    """What one sleeper waits for."""

    def __init__(self) -> None:
        self._due = asyncio.Event()

    def set(self) -> None:
        """Ring."""
        self._due.set()

    async def wait(self, timeout: float) -> None:  # noqa: ASYNC109 - a wait that ends is what this is
        """Sleep until something may be due, at most for a while."""
        try:
            async with asyncio.timeout(timeout):
                await self._due.wait()
        except TimeoutError:
            return
        self._due.clear()


class Wake:
    """Listens on a connection of its own and lets go of it only to take a new one."""

    def __init__(self, url: str, schema: str, settings: PoolSettings) -> None:
        self._url = url
        self._schema = schema
        self._settings = settings
        self._bells: list[Bell] = []

    def bell(self) -> Bell:
        """Give a sleeper a bell of its own."""
        bell = Bell()
        self._bells.append(bell)
        return bell

    def set(self) -> None:
        """Wake everybody."""
        for bell in self._bells:
            bell.set()

    async def run(self) -> None:
        """Listen until cancelled, connecting anew whenever the connection is lost."""
        while True:
            try:
                await self._listen()
            except (
                DatabaseError,
                asyncpg.PostgresError,
                asyncpg.InterfaceError,
                asyncpg.InternalClientError,
                OSError,
            ) as error:
                _log.warning("listening failed, polling meanwhile", error=str(error))
            await asyncio.sleep(RECONNECT_AFTER)

    async def _listen(self) -> None:
        connection = await connect(self._url, self._schema, self._settings)
        lost = asyncio.Event()
        try:
            connection.add_termination_listener(lambda _: lost.set())
            await connection.add_listener(f"{self._schema}_due", lambda *_: self.set())
            self.set()
            await lost.wait()
            _log.warning("the listening connection was lost")
        finally:
            connection.terminate()
