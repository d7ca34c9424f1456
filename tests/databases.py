"""A real Postgres for tests: one server a run, one database a test, cloned from a migrated template."""

import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from itertools import count
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import asyncpg

from tocsin.store.embedded import EmbeddedPostgres
from tocsin.store.migrate import migrate
from tocsin.store.pool import PoolSettings

SCHEMA = "tocsin"
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
        server = EmbeddedPostgres(folder)
        url = server.start()
        try:
            yield url
        finally:
            server.stop()


def with_database(url: str, database: str) -> str:
    """Point an address at another database of the same server."""
    return urlunsplit(urlsplit(url)._replace(path=f"/{database}"))


async def _run(url: str, statement: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


@asynccontextmanager
async def fresh_database(server_url: str, template: str | None = None) -> AsyncIterator[str]:
    """Make a database, empty or cloned, and drop it afterwards."""
    name = f"t{os.getpid()}_{next(_numbers)}"
    clone = f" template {template}" if template else ""
    await _run(server_url, f"create database {name}{clone}")
    try:
        yield with_database(server_url, name)
    finally:
        await _run(server_url, f"drop database {name} with (force)")


@asynccontextmanager
async def migrated_template(server_url: str) -> AsyncIterator[str]:
    """Make the database that tests are cloned from and give its name."""
    async with fresh_database(server_url) as url:
        await migrate(url, SCHEMA, PoolSettings())
        yield urlsplit(url).path.lstrip("/")
