"""Databases as an earlier version left them."""

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from pogo_core.util import migrate as pogo

from tests.databases import SCHEMA, fresh_database
from tocsin.store.migrate import MIGRATIONS
from tocsin.store.pool import PoolSettings, connect


@asynccontextmanager
async def earlier_database(server_url: str, folder: Path, last: str) -> AsyncIterator[str]:
    """Make a database with the migrations up to a number, and yield its address; `folder` is empty."""
    for path in MIGRATIONS.glob("*.sql"):
        if path.stem[:4] <= last:
            shutil.copy(path, folder)
    async with fresh_database(server_url) as url:
        connection = await connect(url, SCHEMA, PoolSettings())
        await connection.execute(f"create schema {SCHEMA}")
        await pogo.apply(connection, folder, schema_name=SCHEMA)
        await connection.close()
        yield url
