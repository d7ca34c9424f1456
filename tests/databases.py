"""A real Postgres for tests: one server a run, one database a test, cloned from a migrated template.

Cloning takes a third of a second of CPU, more than most tests. A database in which a test wrote rows and
changed nothing else is therefore cleared and used again.
"""

import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from itertools import count
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import asyncpg

from tocsin.store.embedded import EmbeddedPostgres
from tocsin.store.migrate import migrate
from tocsin.store.pool import PoolSettings

SCHEMA = "tocsin"
MOST_USES = 100
# Sites that browser tests keep open hold connections beside those of the test that runs.
_SERVER_SETTINGS = """
fsync = off
full_page_writes = off
max_connections = 300
"""
_numbers = count(1)


@contextmanager
def open_folder() -> Iterator[Path]:
    """Give a temporary folder that the embedded server's own user may enter."""
    folder = Path(tempfile.mkdtemp(prefix="tocsin-test-"))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def running_server() -> Iterator[str]:
    """Give the address of a server: the one named in the environment, else an embedded one."""
    if url := os.environ.get("TOCSIN_TEST_DATABASE_URL"):
        yield url
        return
    with open_folder() as folder:
        server = _SharedServer(folder)
        url = server.start()
        try:
            yield url
        finally:
            server.stop()


class _SharedServer(EmbeddedPostgres):
    """A server that many tests use at once and whose data may be lost in a crash."""

    def _write_configuration(self) -> None:
        super()._write_configuration()
        # This file is read last.
        with (self._folder / "postgresql.auto.conf").open("a") as configuration:
            configuration.write(_SERVER_SETTINGS)


def name_of(url: str) -> str:
    """Return the database that an address points at."""
    return urlsplit(url).path.lstrip("/")


def with_database(url: str, database: str) -> str:
    """Point an address at another database of the same server."""
    return urlunsplit(urlsplit(url)._replace(path=f"/{database}"))


@asynccontextmanager
async def _connected(url: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(url)
    try:
        yield connection
    finally:
        await connection.close()


async def _run(url: str, statement: str) -> None:
    async with _connected(url) as connection:
        await connection.execute(statement)


async def _create(server_url: str, template: str | None) -> str:
    """Make a database, empty or cloned, and return its address."""
    name = f"t{os.getpid()}_{next(_numbers)}"
    clone = f" template {template}" if template else ""
    await _run(server_url, f"create database {name}{clone}")
    return with_database(server_url, name)


async def _drop(server_url: str, url: str) -> None:
    await _run(server_url, f"drop database {name_of(url)} with (force)")


@asynccontextmanager
async def fresh_database(server_url: str, template: str | None = None) -> AsyncIterator[str]:
    """Make a database, empty or cloned, and drop it afterwards."""
    url = await _create(server_url, template)
    try:
        yield url
    finally:
        await _drop(server_url, url)


@asynccontextmanager
async def migrated_template(server_url: str) -> AsyncIterator[str]:
    """Make the database that tests are cloned from and give its name."""
    async with fresh_database(server_url) as url:
        await migrate(url, SCHEMA, PoolSettings())
        yield name_of(url)


class _Clone:
    """A database that is cleared after a test; `kept` are the tables whose rows come with its template."""

    def __init__(self, url: str, kept: Sequence[str]) -> None:
        self.url = url
        self._kept = kept
        self._definition = ""
        self._uses = 0

    async def begin(self) -> None:
        """Remember what it is like before its first test."""
        async with _connected(self.url) as connection:
            self._definition = await self._read_definition(connection)

    async def clear(self) -> bool:
        """Bring it back to what it was as a clone; return whether that could be done."""
        self._uses += 1
        async with _connected(self.url) as connection:
            await connection.execute(_END_OTHERS)
            # Clearing it leaves dead rows in the catalogs.
            if self._uses == MOST_USES or not await self._is_unchanged(connection):
                return False
            if written := [row[0] for row in await connection.fetch(_WRITTEN, self._kept)]:
                await connection.execute(f"truncate {', '.join(written)} restart identity cascade")
            await connection.execute(_RESTART_SEQUENCES)
            await connection.execute("select pg_stat_reset()")
            self._definition = await self._read_definition(connection)
        return True

    async def _is_unchanged(self, connection: asyncpg.Connection) -> bool:
        try:
            return await self._read_definition(connection) == self._definition
        except asyncpg.UndefinedTableError:
            return False

    async def _read_definition(self, connection: asyncpg.Connection) -> str:
        """Return what changes with any definition, with the statistics of a table, and with a kept row."""
        # Whatever changes one of them writes a row of a catalog or removes one.
        counted = "(select (count(*), max(xmin::text::bigint))::text from {})"
        parts = ", ".join(map(counted.format, (*_CATALOGS, *self._kept)))
        return " ".join(await connection.fetchrow(f"select {parts}"))


_CATALOGS = (
    *("pg_class", "pg_attribute", "pg_attrdef", "pg_index", "pg_constraint", "pg_trigger", "pg_proc"),
    *("pg_type", "pg_namespace", "pg_extension", "pg_policy", "pg_db_role_setting"),
    "pg_statistic where starelid >= 16384",
)
_WRITTEN = """
select oid::regclass::text
from pg_class
where
    oid >= 16384
    and relkind = 'r'
    and oid <> all($1::text[]::regclass[])
    and (reltuples <> -1 or pg_relation_size(oid) > 0)
"""
_END_OTHERS = """
select pg_terminate_backend(pid, 10000)
from pg_stat_activity
where datname = current_database() and pid <> pg_backend_pid()
"""
_RESTART_SEQUENCES = "select setval(seqrelid::regclass, seqstart, false) from pg_sequence"


class Clones:
    """Lends databases, each as if it had been cloned from the template for its test."""

    def __init__(self, server_url: str, template: str, kept: Sequence[str] = ()) -> None:
        self._server_url = server_url
        self._template = template
        self._kept = kept
        self._free: list[_Clone] = []

    async def aclose(self) -> None:
        """Drop what was cloned."""
        for clone in self._free:
            await _drop(self._server_url, clone.url)

    @asynccontextmanager
    async def lent(self) -> AsyncIterator[str]:
        """Lend a database that nobody else has."""
        clone = self._free.pop() if self._free else await self._made()
        try:
            yield clone.url
        finally:
            if await clone.clear():
                self._free.append(clone)
            else:
                await _drop(self._server_url, clone.url)

    async def _made(self) -> _Clone:
        clone = _Clone(await _create(self._server_url, self._template), self._kept)
        await clone.begin()
        return clone
