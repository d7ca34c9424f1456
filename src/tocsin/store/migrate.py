"""Migrates the schema, one process at a time, and checks whether this version works with it.

The ledger of applied migrations is the table `schema_migrations` of Tocsin's own schema, so that a dump of
the schema is complete. Earlier versions kept it in `public`, for all schemas; it is read there, and copied by
the next `migrate`.
"""

import asyncio
import time
from pathlib import Path

import asyncpg
import msgspec
import structlog
from pogo_core.migration import Migration, topological_sort
from pogo_core.util import migrate as pogo

from tocsin.domain.errors import DatabaseError, SchemaMissingError
from tocsin.store.pool import (
    AWAY,
    OLDEST_SERVER,
    Connection,
    PoolSettings,
    connect,
    opened_connection,
    unreachable,
)

MIGRATIONS = Path(__file__).parent / "migrations"
PREVIOUS_VERSION = 8
"""The newest migration of the release before this one: its processes work with the schema of this one."""
LOCK_TIMEOUT = "2s"
LONGEST_LOCK_WAIT = 300.0
LONGEST_ATTEMPT = 10.0
"""What takes longer has an index to build."""

_log = structlog.stdlib.get_logger(__name__)
_LOCK_CLASS = 0x70C5
_LOCK_POLL_SECONDS = 0.1
_LOCK_RETRY_SECONDS = 1.0

CREATE_LEDGER = """
create table if not exists schema_migrations (
    id text primary key,
    applied_at timestamptz not null default now(),
    oldest_version integer
)
"""

_COPY_EARLIER_LEDGER = """
insert into schema_migrations (id, applied_at)
select migration_id, coalesce(applied, now())
from public._pogo_migration
where schema_name = $1
"""

RECORD = """
insert into schema_migrations (id, oldest_version)
values ($1, $2)
"""

INVALID_INDEXES = """
select index.relname
from pg_index
join pg_class index on index.oid = pg_index.indexrelid
where index.relnamespace = $1::text::regnamespace and not pg_index.indisvalid
"""


class Ledger(msgspec.Struct, frozen=True, kw_only=True):
    """The migrations that were applied to a schema.

    Processes from `oldest_version` on, by the number of their newest migration, work with the schema.
    """

    is_own: bool
    applied: frozenset[str]
    oldest_version: int = 0

    @property
    def pending(self) -> list[str]:
        """List the migrations that this version has and the schema lacks."""
        return sorted({path.stem for path in MIGRATIONS.glob("*.sql")} - self.applied)

    def fault(self, schema: str) -> str | None:
        """Return why this version does not work with the schema, or None."""
        if self.oldest_version > newest_version():
            newest = max(self.applied)
            return (
                f"Schema {schema} was migrated to {newest} by a newer Tocsin and works with versions from "
                f"migration {self.oldest_version:04} on; this one has {newest_version():04}. "
                "Install the newer version."
            )
        if needed := [name for name in self.pending if _is_needed(MIGRATIONS / f"{name}.sql")]:
            state = (
                "lacks these migrations" if self.applied else "is not set up; these migrations are missing"
            )
            return f"Schema {schema} {state}: {', '.join(needed)}. Run: tocsin migrate"
        return None


def newest_version() -> int:
    """Return the number of the newest migration of this version."""
    return max(int(path.stem[:4]) for path in MIGRATIONS.glob("*.sql"))


async def migrate(url: str, schema: str, settings: PoolSettings) -> list[str]:
    """Apply missing migrations and return their names; a second process waits and finds nothing to do."""
    connection = await connect(url, schema, settings)
    try:
        await _refuse_old_server(connection)
        await _lock(connection)
        ledger = await read_ledger(connection, schema)
        if ledger.oldest_version > newest_version():
            raise DatabaseError(str(ledger.fault(schema)))
        # Without pending migrations, nothing runs that needs more rights than Tocsin itself.
        if not ledger.is_own:
            await _refuse_lost_ledger(connection, schema, ledger)
            await _create_ledger(connection, schema, copied=bool(ledger.applied))
        for migration in _in_order(ledger):
            await _apply(connection, schema, migration)
    except asyncpg.InsufficientPrivilegeError as error:
        raise DatabaseError(
            f"The database role may not prepare schema {schema!r}: {error}. It needs CREATE on the database, "
            "or has to own the schema."
        ) from error
    finally:
        # Closing the session releases the lock, whatever happened above.
        await connection.close()
    if ledger.pending:
        _log.info("schema migrated", schema=schema, applied=ledger.pending)
    return ledger.pending


async def check_schema(url: str, schema: str, settings: PoolSettings) -> None:
    """Raise DatabaseError if this version does not work with the schema; change nothing."""
    opening = connect(url, schema, settings, command_timeout=settings.command_timeout)
    async with opened_connection(opening) as connection:
        try:
            await _refuse_old_server(connection)
            ledger = await read_ledger(connection, schema)
        except AWAY as error:
            raise unreachable(error) from error
        except asyncpg.PostgresError as error:
            raise DatabaseError(
                f"The migrations of schema {schema!r} cannot be read: {error}. The database role needs USAGE "
                "on the schema and SELECT on its tables."
            ) from error
    if fault := ledger.fault(schema):
        raise DatabaseError(fault) if ledger.applied else SchemaMissingError(fault)


async def read_ledger(connection: Connection, schema: str) -> Ledger:
    """Read which migrations were applied to a schema."""
    own, earlier = await connection.fetchrow(
        "select to_regclass($1), to_regclass('public._pogo_migration')", f'"{schema}".schema_migrations'
    )
    if own is not None:
        rows = await connection.fetch(f'select id, oldest_version from "{schema}".schema_migrations')  # noqa: S608 - checked by the settings
        oldest = max((row["oldest_version"] or 0 for row in rows), default=0)
        return Ledger(is_own=True, applied=frozenset(row["id"] for row in rows), oldest_version=oldest)
    rows = []
    if earlier is not None:
        rows = await connection.fetch(
            "select migration_id from public._pogo_migration where schema_name = $1", schema
        )
    return Ledger(is_own=False, applied=frozenset(row["migration_id"] for row in rows))


async def pending_migrations(connection: Connection, schema: str) -> list[str]:
    """List the migrations that this version has and the database lacks."""
    return (await read_ledger(connection, schema)).pending


def _is_needed(path: Path) -> bool:
    """Return whether the code of this version fails without a migration.

    It works without an index that is built concurrently, unless the index is unique, and without what a
    migration marks by `-- needed: false`, since only the next version uses it.
    """
    text = path.read_text()
    only_faster = "-- transaction: false" in text and "unique index" not in text
    return not only_faster and "-- needed: false" not in text


def _in_order(ledger: Ledger) -> list[Migration]:
    """List the pending migrations, each after those that it depends on."""
    every = [Migration(path.stem, path, set(ledger.applied)) for path in sorted(MIGRATIONS.glob("*.sql"))]
    # Loading one finds those that it depends on, so all of them have to be there.
    loaded = [migration.load() for migration in every]
    return [migration for migration in topological_sort(loaded) if not migration.applied]


async def _refuse_lost_ledger(connection: asyncpg.Connection, schema: str, ledger: Ledger) -> None:
    """Refuse a schema that has tables and no ledger: an earlier version's dump of the schema alone."""
    if not ledger.applied and await connection.fetchval(
        "select to_regclass($1) is not null", f'"{schema}".deliveries'
    ):
        raise DatabaseError(
            f"Schema {schema} has tables, but the list of its migrations is missing. A dump that an earlier "
            "version of Tocsin was running on has it in public._pogo_migration and public._pogo_version: "
            "restore these tables too, then run: tocsin migrate"
        )


async def _create_ledger(connection: asyncpg.Connection, schema: str, *, copied: bool) -> None:
    async with connection.transaction():
        # Creating it needs a right on the database, even if it exists.
        if await connection.fetchval("select to_regnamespace($1) is null", f'"{schema}"'):
            await connection.execute(f'create schema "{schema}"')
        await connection.execute(CREATE_LEDGER)
        if copied:
            await connection.execute(_COPY_EARLIER_LEDGER, schema)


async def _apply(connection: asyncpg.Connection, schema: str, migration: Migration) -> None:
    """Apply a migration; while another transaction holds a lock that it needs, retry.

    A statement that waits for a lock blocks everyone who comes after it, so it waits only briefly.
    """
    deadline = time.monotonic() + LONGEST_LOCK_WAIT
    while True:
        began = time.monotonic()
        try:
            async with pogo.transaction(connection, migration):
                if migration.use_transaction:
                    await connection.execute(f"set local lock_timeout = '{LOCK_TIMEOUT}'")
                else:
                    await _drop_invalid_indexes(connection, schema, migration)
                await migration.apply(connection)
                await connection.execute(RECORD, migration.id, PREVIOUS_VERSION)
        except asyncpg.LockNotAvailableError as error:
            # To build an index is no wait for a lock.
            deadline += max(0.0, time.monotonic() - began - LONGEST_ATTEMPT)
            if time.monotonic() > deadline:
                raise DatabaseError(
                    f"Migration {migration.id} got no lock within {LONGEST_LOCK_WAIT:g} s: another "
                    "transaction uses the table. End it (see pg_stat_activity), then run: tocsin migrate"
                ) from error
            _log.warning(
                "migration blocked",
                migration=migration.id,
                detail="another transaction holds a lock on the table",
                retry_in_seconds=_LOCK_RETRY_SECONDS,
            )
            # One without a transaction sets its own.
            await connection.execute("reset lock_timeout")
            await asyncio.sleep(_LOCK_RETRY_SECONDS)
        else:
            return


async def _drop_invalid_indexes(connection: asyncpg.Connection, schema: str, migration: Migration) -> None:
    """Drop what an interrupted concurrent build left behind, which `if not exists` would keep."""
    text = migration.path.read_text()
    for (name,) in await connection.fetch(INVALID_INDEXES, f'"{schema}"'):
        if name in text:
            await connection.execute(f'drop index concurrently if exists "{schema}"."{name}"')


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
