"""Endpoints as Tocsin's database has them, for a function that is closer to it than to the API."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from threading import Lock, Thread
from typing import TypeVar

import asyncpg

from tocsin.aws.functions.parameters import Secret
from tocsin.aws.functions.results import RetryLaterError
from tocsin.store.people.endpoints import sns as sns_endpoints
from tocsin.store.people.endpoints.sns import EndpointRow
from tocsin.store.pool import DATABASE_FAULTS, Connection
from tocsin.wire.person.endpoints import Endpoint, PersonEndpoints

SECONDS = 5.0
_SEALED = "sealed:"
_FAULTS = (*DATABASE_FAULTS, ValueError)

T = TypeVar("T")


class DatabaseEndpoints:
    """Finds and retires endpoints by one connection, one call at a time; it is opened again after a fault.

    `categories` maps types to categories; a type without one has no opt-out. An endpoint that is encrypted
    at rest is left out: a data key belongs to the server, which the API asks.
    """

    def __init__(
        self, url: Secret, schema: str, categories: Mapping[str, str], *, org_scoping: bool = False
    ) -> None:
        self._url = url
        self._schema = schema
        self._categories = categories
        self._org_scoping = org_scoping
        self._connection: Connection | None = None
        self._lock = Lock()
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, name="database", daemon=True)
        self._thread.start()

    def find(self, user_ids: Sequence[str], type_: str, org_id: str | None) -> list[PersonEndpoints]:
        """Find the endpoints of people of an organisation who have not opted out of a type.

        Raise RetryLaterError if they cannot be found now.
        """
        category, scoped = self._categories.get(type_), org_id if self._org_scoping else None
        return self._run(
            lambda connection: sns_endpoints.find(connection, user_ids, category, _read_token, org_id=scoped)
        )

    def retire(self, endpoint: Endpoint, code: str) -> bool:
        """Retire an endpoint; return whether it was active; raise RetryLaterError if that fails."""
        now, seen_at = datetime.now(UTC), endpoint.last_seen_at
        device_id = self._run(
            lambda connection: sns_endpoints.retire(
                connection, endpoint.endpoint_arn, code, now, last_seen_at=seen_at
            )
        )
        return device_id is not None

    def close(self) -> None:
        """Close the connection and end its thread."""
        if self._connection is not None:
            asyncio.run_coroutine_threadsafe(_close(self._connection), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        """Run statements; on a connection that was open and fails, once more on a new one."""
        with self._lock:
            was_open = self._connection is not None
            try:
                return self._wait_for(work)
            except _FAULTS as error:
                # A password of the Parameter Store may have been changed.
                self._url.forget()
                if not was_open:
                    raise RetryLaterError(f"database_{type(error).__name__}") from None
            try:
                return self._wait_for(work)
            except _FAULTS as error:
                raise RetryLaterError(f"database_{type(error).__name__}") from None

    def _wait_for(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        running = self._on_connection(self._url.get(), work)
        return asyncio.run_coroutine_threadsafe(running, self._loop).result()

    async def _on_connection(self, url: str, work: Callable[[Connection], Awaitable[T]]) -> T:
        connection, self._connection = self._connection, None
        if connection is not None and connection.is_closed():
            await _close(connection)
            connection = None
        if connection is None:
            connection = await asyncpg.connect(
                url,
                timeout=SECONDS,
                command_timeout=SECONDS,
                # A pooler in between has its own idea of prepared statements.
                statement_cache_size=0,
                server_settings={"search_path": self._schema, "application_name": "tocsin delivery"},
            )
        try:
            done = await work(connection)
        except BaseException:
            await _close(connection)
            raise
        self._connection = connection
        return done


async def _close(connection: Connection) -> None:
    """Close a connection, in order or by force."""
    try:
        await connection.close(timeout=SECONDS)
    except _FAULTS:
        connection.terminate()
    # The transport is closed in the next round of the loop.
    await asyncio.sleep(0)


def _read_token(row: EndpointRow) -> str | None:
    return None if row.token.startswith(_SEALED) else row.token
