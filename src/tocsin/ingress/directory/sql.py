"""A directory that is a query in another database."""

import asyncio
from collections.abc import Collection, Sequence

import asyncpg
import structlog

from tocsin.ingress.directory.lookup import DirectoryUnavailableError, People, Person, person_of
from tocsin.ingress.directory.settings import DirectorySettings
from tocsin.store.pool import DATABASE_FAULTS

_log = structlog.stdlib.get_logger(__name__)


class SqlDirectory:
    """Asks for all people at once, over one connection that is opened when it is needed."""

    def __init__(self, settings: DirectorySettings) -> None:
        self._settings = settings
        self._connection: asyncpg.Connection | None = None
        self._lock = asyncio.Lock()

    async def find(self, user_ids: Collection[str]) -> People:
        """Return every person asked for, or raise DirectoryUnavailableError with those that were found."""
        found: dict[str, Person | None] = {}
        async with self._lock:
            try:
                await self._find(list(dict.fromkeys(user_ids)), found)
            except (*DATABASE_FAULTS, LookupError, ValueError, OverflowError) as error:
                if self._connection is not None:
                    # It may hang without an end: the next look-up opens another.
                    self._connection.terminate()
                    self._connection = None
                # An error of the driver may quote parts of the URL, and one of the server a user id.
                raise DirectoryUnavailableError(f"the directory: {type(error).__name__}", found) from None
        return found

    async def aclose(self) -> None:
        """Close connections."""
        if self._connection is not None:
            await self._connection.close(timeout=self._settings.timeout)

    async def _find(self, user_ids: Sequence[str], found: dict[str, Person | None]) -> None:
        try:
            found |= await self._query(user_ids)
        except asyncpg.DataError:
            # A query that fails without any user id is wrong itself.
            await self._query([])
            refused = await self._bisect(user_ids, found)
            _log.warning("directory lookups refused", people=refused)

    async def _bisect(self, user_ids: Sequence[str], found: dict[str, Person | None]) -> int:
        """Find people without those whose ids do not fit the query; return how many those are."""
        if len(user_ids) == 1:
            found[user_ids[0]] = None
            return 1
        half, refused = len(user_ids) // 2, 0
        for part in (user_ids[:half], user_ids[half:]):
            try:
                found |= await self._query(part)
            except asyncpg.DataError:
                refused += await self._bisect(part, found)
        return refused

    async def _query(self, user_ids: Sequence[str]) -> People:
        timeout = self._settings.timeout
        if self._connection is None or self._connection.is_closed():
            self._connection = await asyncpg.connect(
                self._settings.url, timeout=timeout, server_settings={"application_name": "tocsin"}
            )
        rows = await self._connection.fetch(self._settings.query, user_ids, timeout=timeout)
        people = {str(row["user_id"]): person_of(row["email"], row["preferred_language"]) for row in rows}
        return {user_id: people.get(user_id) for user_id in user_ids}
