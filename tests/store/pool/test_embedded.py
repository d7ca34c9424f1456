"""The embedded server's settings."""

import asyncpg

from tests.databases import open_folder
from tocsin.store.embedded import EmbeddedPostgres


async def test_whole_pages_are_not_compressed_slowly() -> None:
    """A page takes pglz longer than a message takes in all, and the wheel has no other method."""
    with open_folder() as folder:
        server = EmbeddedPostgres(folder)
        connection = await asyncpg.connect(server.start())
        try:
            assert await connection.fetchval("show wal_compression") != "pglz"
        finally:
            await connection.close()
            server.stop()
