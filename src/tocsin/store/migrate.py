"""Migrates the schema, one process at a time."""

import asyncio
import logging
from pathlib import Path

import asyncpg
import structlog
from pogo_core.util import migrate as pogo
from pogo_core.util import sql as pogo_sql

from tocsin.domain.errors import DatabaseError
from tocsin.store.pool import OLDEST_SERVER, PoolSettings, connect

MIGRATIONS = Path(__file__).parent / "migrations"

_log = structlog.stdlib.get_logger(__name__)
# The library logs each step as a warning; the result is logged below at the right level.
_silent = logging.getLogger("tocsin.store.migrate.steps")
_silent.setLevel(logging.CRITICAL)
_LOCK_CLASS = 0x70C5
_LOCK_POLL_SECONDS = 0.1


async def migrate(url: str, schema: str, settings: PoolSettings) -> list[str]:
    """Apply missing migrations and return their names; a second process waits and finds nothing to do."""
    connection = await connect(url, schema, settings)
    try:
        await _refuse_old_server(connection)
        await _lock(connection)
        # Without pending migrations, nothing runs that needs more rights than Tocsin itself.
        new = await pending_migrations(connection, schema)
        if new:
            await connection.execute(f'create schema if not exists "{schema}"')
            await pogo.apply(connection, MIGRATIONS, schema_name=schema, logger=_silent)
    except asyncpg.InsufficientPrivilegeError as error:
        raise DatabaseError(
            f"The database role may not prepare schema {schema!r}: {error}. It needs CREATE on the database "
            "and on schema public, where the list of applied migrations is kept."
        ) from error
    finally:
        # Closing the session releases the lock, whatever happened above.
        await connection.close()
    if new:
        _log.info("schema migrated", schema=schema, applied=new)
    return new


async def pending_migrations(connection: asyncpg.Connection, schema: str) -> list[str]:
    """List the migrations that this version has and the database lacks."""
    missing = {path.stem for path in MIGRATIONS.glob("*.sql")}
    if await pogo_sql.get_pogo_version(connection) is not None:
        missing -= set(await pogo_sql.get_applied_migrations(connection, schema_name=schema))
    return sorted(missing)


async def _lock(connection: asyncpg.Connection) -> None:
    """Wait until no other process migrates.

    Polls, since building an index waits for every statement under way, also for one that waits for the lock.
    """
    while not await connection.fetchval("select pg_try_advisory_lock($1, 0)", _LOCK_CLASS):  # noqa: ASYNC110 - no event
        await asyncio.sleep(_LOCK_POLL_SECONDS)


async def _refuse_old_server(connection: asyncpg.Connection) -> None:
    version = int(await connection.fetchval("show server_version_num"))
    if version < OLDEST_SERVER:
        raise DatabaseError(
            f"Postgres {version // 10_000} is too old: Tocsin needs {OLDEST_SERVER // 10_000} or newer."
        )
