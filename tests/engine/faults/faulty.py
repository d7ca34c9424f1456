"""A pool of connections that fails where a test wants it to, before or after the server did its part."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Literal, cast

import asyncpg

from tocsin.store.pool import Pool

Moment = Literal["before", "after"]


class FaultyPool:
    """Passes every awaited operation of a pool through `around`, which may fail instead."""

    def __init__(
        self, pool: Pool, around: Callable[[str, Callable[[], Awaitable[Any]]], Awaitable[Any]]
    ) -> None:
        self._pool = pool
        self._around = around

    @classmethod
    def of(cls, pool: Pool, around: Callable[[str, Callable[[], Awaitable[Any]]], Awaitable[Any]]) -> Pool:
        return cast("Pool", cls(pool, around))

    @asynccontextmanager
    async def acquire(self) -> AsyncIterator[Any]:
        async def check() -> None: ...

        await self._around("acquire", check)
        async with self._pool.acquire() as connection:
            yield FaultyConnection(connection, self._around)

    def __getattr__(self, name: str) -> Any:
        return _wrapped(getattr(self._pool, name), name, self._around)


class FaultyConnection:
    """A connection of such a pool; a transaction that fails as it ends was rolled back or committed."""

    def __init__(self, connection: Any, around: Any) -> None:
        self._connection = connection
        self._around = around

    @asynccontextmanager
    async def transaction(self, **options: Any) -> AsyncIterator[None]:
        transaction = self._connection.transaction(**options)
        await self._around("begin", transaction.start)
        try:
            yield
        except BaseException:
            await transaction.rollback()
            raise
        try:
            await self._around("commit", transaction.commit)
        except BaseException:
            if self._connection.is_in_transaction():
                await transaction.rollback()
            raise

    def __getattr__(self, name: str) -> Any:
        return _wrapped(getattr(self._connection, name), name, self._around)


def _wrapped(method: Any, name: str, around: Any) -> Any:
    async def call(*arguments: Any, **named: Any) -> Any:
        return await around(name, lambda: method(*arguments, **named))

    return call


class Outage:
    """Fails every operation while the database is away."""

    def __init__(self) -> None:
        self.is_away = False

    async def __call__(self, _: str, operation: Callable[[], Awaitable[Any]]) -> Any:
        if self.is_away:
            raise asyncpg.ConnectionDoesNotExistError("connection was closed in the middle of operation")
        return await operation()
