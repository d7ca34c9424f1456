"""The rows of an outbox: taking them, marking them, forgetting them."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any, TypeAlias

import asyncpg
import msgspec

from tocsin.domain.errors import DatabaseError
from tocsin.ingress.outbox.table import Row, Table
from tocsin.store.pool import CONNECTING_FAILED, Connection, PoolSettings

# Of everybody who keeps order in the same outbox only one reads at a time. The lock ends with the transaction
# and is taken before the statement that reads, so that this sees all that the one before has marked.
KEEP_ORDER = "select pg_try_advisory_xact_lock(hashtextextended('tocsin relay ' || $1, 0))"


class Published(msgspec.Struct, frozen=True):
    """The row became a notification, now or before."""

    id: Any


class Failed(msgspec.Struct, frozen=True, kw_only=True):
    """The row cannot be accepted as it is."""

    id: Any
    attempts: int
    retry_at: datetime
    error: str


Fate: TypeAlias = Published | Failed


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """How an outbox stands."""

    waiting: int
    oldest: datetime | None
    failed: int
    alarming: int


@asynccontextmanager
async def outbox_connection(url: str, settings: PoolSettings) -> AsyncIterator[asyncpg.Connection]:
    """Open a connection to an application's database; no word of the address is told when it fails."""
    try:
        connection = await asyncpg.connect(
            url,
            timeout=settings.connect_timeout,
            command_timeout=settings.command_timeout,
            server_settings={
                "application_name": "tocsin relay",
                "timezone": "UTC",
                "jit": "off",
                # The rows of a relay whose machine has gone away become free again.
                "idle_in_transaction_session_timeout": "60s",
                # The few rows that wait are found by their index, whatever was known when it was planned.
                "enable_seqscan": "off",
            },
        )
    except CONNECTING_FAILED as error:
        # What an address cannot be read for may be a part of its password.
        reason = type(error).__name__ if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
        raise DatabaseError(
            f"The application's database does not answer ({reason}). "
            "Check the url of the outbox, with special characters written as %XX, and that the server runs."
        ) from None
    try:
        yield connection
    finally:
        # It may be in the middle of a statement, and nothing of it is to be kept.
        connection.terminate()


async def keep_order(connection: Connection, table: Table) -> bool:
    """Become, until the transaction ends, the only one who reads; False if somebody else is."""
    alone: bool = await connection.fetchval(KEEP_ORDER, table.name)
    return alone


async def held_back(connection: Connection, table: Table, now: datetime) -> list[str]:
    """Name the aggregates of which a row waits to be tried again."""
    return [row[0] for row in await connection.fetch(table.held_back, now)]


async def take(
    connection: Connection, table: Table, *, now: datetime, limit: int, held: Sequence[str] = ()
) -> list[Row]:
    """Lock rows that are due, for as long as the transaction lasts."""
    return [Row(*row) for row in await connection.fetch(table.take, now, limit, held)]


async def mark(connection: Connection, table: Table, fates: Sequence[Fate], now: datetime) -> None:
    """Write down what became of rows."""
    if published := [fate.id for fate in fates if isinstance(fate, Published)]:
        await connection.execute(table.publish, published, now)
    if failed := [fate for fate in fates if isinstance(fate, Failed)]:
        await connection.executemany(
            table.fail, [(fate.id, fate.attempts, fate.retry_at, fate.error) for fate in failed]
        )


async def prune(connection: Connection, table: Table, before: datetime, limit: int) -> int:
    """Delete some rows that were published long ago, and count them."""
    done: str = await connection.execute(table.prune, before, limit)
    return int(done.rpartition(" ")[2])


async def status(connection: Connection, table: Table, alarming: int) -> Status:
    """Count what waits, what has failed, and what has failed so often that an alarm was raised."""
    return Status(**await connection.fetchrow(table.status, alarming))
