"""Opens the database that the settings name."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tocsin.engine.clock import DatabaseClock
from tocsin.settings.load import default_data_dir
from tocsin.settings.tree import Settings
from tocsin.store.migrate import check_schema
from tocsin.store.pool import Pool, first_connection, open_pool


def data_dir(settings: Settings) -> Path:
    """Return the folder of what Tocsin keeps on disk."""
    return settings.data_dir or default_data_dir()


@asynccontextmanager
async def checked_pool(settings: Settings, url: str, *, lookups_only: bool = False) -> AsyncIterator[Pool]:
    """Open a pool on a schema that this version works with; raise DatabaseError on any other."""
    await check_schema(url, settings.schema, settings.pool)
    async with open_pool(url, settings.schema, settings.pool, lookups_only=lookups_only) as pool:
        yield pool


async def database_clock(pool: Pool) -> DatabaseClock:
    """Measure the clock of the database, by which everything stored is compared."""
    clock = DatabaseClock(pool)
    async with first_connection(pool) as connection:
        await clock.measure(connection)
    return clock
