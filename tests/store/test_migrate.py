import asyncio

import asyncpg

from tests.databases import SCHEMA, fresh_database
from tocsin.store.migrate import MIGRATIONS, migrate, pending_migrations
from tocsin.store.pool import PoolSettings, connect


async def test_two_processes_may_migrate_at_once(server_url: str) -> None:
    async with fresh_database(server_url) as url:
        applied = await asyncio.gather(*(migrate(url, SCHEMA, PoolSettings()) for _ in range(4)))

        every = sorted(path.stem for path in MIGRATIONS.glob("*.sql"))
        assert sorted(applied) == [[], [], [], every]
        connection = await connect(url, SCHEMA, PoolSettings())
        assert await pending_migrations(connection, SCHEMA) == []
        await connection.close()


async def test_two_schemas_share_a_database(server_url: str) -> None:
    async with fresh_database(server_url) as url:
        await migrate(url, "first", PoolSettings())
        await migrate(url, "second", PoolSettings())

        connection = await asyncpg.connect(url)
        schemas = await connection.fetch(
            "select schemaname from pg_tables where tablename = 'deliveries' order by schemaname"
        )
        await connection.close()
        assert [row[0] for row in schemas] == ["first", "second"]
