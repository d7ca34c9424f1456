"""People are found by their attributes through the index, however many there are."""

import pytest

from tests.databases import SCHEMA
from tocsin.store.people.users import with_attributes
from tocsin.store.pool import Connection, Pool, PoolSettings, open_pool

PEOPLE = 20_000
FILL = """
insert into users (user_id, updated_at, attributes)
select 'user' || number, now(), jsonb_build_object('plan', 'plan' || number % 1000, 'seats', number % 7)
from generate_series(1, $1::integer) as number
"""
SCANS = """
select seq_scan, idx_scan from pg_stat_xact_user_tables where relname = 'users' and schemaname = $1
"""


async def scans(connection: Connection) -> tuple[int, int]:
    """Count how often a query read the whole table, and how often an index; it leaves no setting behind."""
    async with connection.transaction():
        setting = await connection.fetchval("show enable_bitmapscan")
        found = await with_attributes(connection, {"plan": "plan7", "seats": 0}, 10_001)
        assert len(found) in {0, 3}
        assert await connection.fetchval("show enable_bitmapscan") == setting
        whole, index = await connection.fetchrow(SCANS, SCHEMA)
        return whole, index


@pytest.mark.parametrize("lookups_only", [False, True], ids=["of the API", "of a worker"])
async def test_the_index_finds_them_by_every_connection(
    database_url: str, pool: Pool, *, lookups_only: bool
) -> None:
    async with (
        open_pool(database_url, SCHEMA, PoolSettings(), lookups_only=lookups_only) as opened,
        opened.acquire() as connection,
    ):
        empty = [await scans(connection) for _ in range(6)]
        await pool.execute(FILL, PEOPLE)
        kept = await scans(connection)
        await pool.execute("analyze users")
        analyzed = await scans(connection)

    # The counts of a connection grow until the server collects them.
    for whole, by_index in (*empty, kept, analyzed):
        assert whole == 0
        assert by_index >= 1
