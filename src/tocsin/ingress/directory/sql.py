"""A directory that is a query in another database."""

import asyncio
from collections.abc import Collection

import asyncpg

from tocsin.ingress.directory.lookup import DirectoryUnavailableError, People, person_of
from tocsin.ingress.directory.settings import DirectorySettings
from tocsin.store.pool import DATABASE_FAULTS


class SqlDirectory:
    """Asks for all people at once, over one connection that is opened when it is needed."""

    def __init__(self, settings: DirectorySettings) -> None:
        self._settings = settings
        self._connection: asyncpg.Connection | None = None
        self._lock = asyncio.Lock()

    async def find(self, user_ids: Collection[str]) -> People:
        """Return every person asked for, or raise DirectoryUnavailableError."""
        timeout = self._settings.timeout
        async with self._lock:
            try:
                if self._connection is None or self._connection.is_closed():
                    self._connection = await asyncpg.connect(
                        self._settings.url, timeout=timeout, server_settings={"application_name": "tocsin"}
                    )
                rows = await self._connection.fetch(self._settings.query, list(user_ids), timeout=timeout)
                found = {
                    str(row["user_id"]): person_of(row["email"], row["preferred_language"]) for row in rows
                }
            except (*DATABASE_FAULTS, KeyError) as error:
                raise DirectoryUnavailableError(f"the directory: {type(error).__name__}") from error
        return {user_id: found.get(user_id) for user_id in user_ids}

    async def aclose(self) -> None:
        """Close connections."""
        if self._connection is not None:
            await self._connection.close(timeout=self._settings.timeout)
