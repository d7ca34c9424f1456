"""Connections to Postgres."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, TypeAlias

import asyncpg
import msgspec
from msgspec import Meta

from tocsin.domain.errors import DatabaseError

OLDEST_SERVER = 150_000
DATABASE_FAULTS = (
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    # What asyncpg raises when a statement meets a connection that the server is just closing.
    asyncpg.InternalClientError,
    OSError,
)
"""What a statement can raise through no fault of its own; a time-out is an OSError."""
CONNECTING_FAILED = (OSError, ValueError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError)

Pool: TypeAlias = asyncpg.Pool
Connection: TypeAlias = asyncpg.Connection | asyncpg.pool.PoolConnectionProxy


# What an API process runs has one good plan whatever the values; it need not be found again for
# every batch.
_PLANNED_ONCE = {"plan_cache_mode": "force_generic_plan", "enable_seqscan": "off"}

# A worker looks up rows by key and nothing else. A plan made while a table was small, and kept,
# would go on reading all of it once it is large.
LOOKUPS_ONLY = {
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "enable_bitmapscan": "off",
}


class PoolSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How many connections a process keeps and how long it waits for one."""

    size: Annotated[int, Meta(ge=2, le=500)] = 8
    connect_timeout: Annotated[float, Meta(gt=0, le=300)] = 10.0
    command_timeout: Annotated[float, Meta(gt=0, le=3_600)] = 30.0


def schema_fault(schema: str) -> str | None:
    """Say what is wrong with a schema name, if anything is."""
    if re.fullmatch(r"[a-z_][a-z0-9_]{0,49}", schema):
        return None
    return "must be lower-case letters, digits and underscores, at most 50, not starting with a digit"


@asynccontextmanager
async def open_pool(
    url: str, schema: str, settings: PoolSettings, *, lookups_only: bool = False
) -> AsyncIterator[Pool]:
    """Open a pool whose connections see the schema's tables by their bare names."""
    server_settings = connection_settings(schema) | (LOOKUPS_ONLY if lookups_only else _PLANNED_ONCE)
    try:
        pool = await asyncpg.create_pool(
            url,
            # No floor to restore: while the database is away, the pool would complain of it every second.
            min_size=0,
            max_size=settings.size,
            timeout=settings.connect_timeout,
            command_timeout=settings.command_timeout,
            max_inactive_connection_lifetime=0,
            server_settings=server_settings,
        )
    except CONNECTING_FAILED as error:
        raise unreachable(error) from error
    try:
        yield pool
    finally:
        pool.terminate() if pool.is_closing() else await pool.close()


def connection_settings(schema: str) -> dict[str, str]:
    """Give what every connection of Tocsin sets on the server."""
    return {
        "application_name": "tocsin",
        "search_path": schema,
        "timezone": "UTC",
        # Every statement is short and prepared: compiling it costs more than it saves.
        "jit": "off",
        "idle_in_transaction_session_timeout": "60s",
    }


async def connect(url: str, schema: str, settings: PoolSettings) -> asyncpg.Connection:
    """Open one connection outside the pool, for listening or migrating."""
    try:
        return await asyncpg.connect(
            url,
            timeout=settings.connect_timeout,
            server_settings=connection_settings(schema),
        )
    except CONNECTING_FAILED as error:
        raise unreachable(error) from error


def unreachable(error: BaseException) -> DatabaseError:
    """Explain a failed connection without repeating the address, which may hold a password."""
    return DatabaseError(
        f"The database does not answer ({type(error).__name__}: {error}). "
        "Check TOCSIN_DATABASE_URL and that the server runs, or leave it out to use the embedded one."
    )
