"""The connections of a pool, which are used again and again for as long as a process runs."""

import pytest

from tests.databases import SCHEMA
from tests.rows import add_waiting
from tests.store.plans import explain_kept, keep_plan, rows_read
from tocsin.store import pool as pools
from tocsin.store.pool import PoolSettings, open_pool

ONE = PoolSettings(size=2)
LOOK_UP = """
select delivery.id
from unnest($1::uuid[]) as given (id)
join deliveries as delivery on delivery.id = given.id
"""


@pytest.mark.parametrize(("seconds", "rows"), [(0.0, 1), (60.0, 500)])
async def test_plans_of_an_empty_table_are_not_kept(
    database_url: str, monkeypatch: pytest.MonkeyPatch, seconds: float, rows: int
) -> None:
    """A statement planned for an empty table scans it; with old plans dropped it looks rows up."""
    monkeypatch.setattr(pools, "REPLAN_SECONDS", seconds)
    async with open_pool(database_url, SCHEMA, ONE, lookups_only=True) as pool:
        async with pool.acquire() as connection:
            await connection.execute("analyze")
            await keep_plan(connection, "look-up", LOOK_UP, [])
            await add_waiting(connection, 500)
            (delivery_id,) = await connection.fetchrow("select id from deliveries limit 1")
        async with pool.acquire() as connection:
            plan = await explain_kept(connection, "look-up", [delivery_id])

    assert rows_read(plan) == rows


async def test_an_open_transaction_ends_with_the_use_of_its_connection(database_url: str) -> None:
    async with open_pool(database_url, SCHEMA, ONE) as pool:
        async with pool.acquire() as connection:
            await connection.execute("begin")
            await add_waiting(connection, 1)
        async with pool.acquire() as connection:
            assert await connection.fetchval("select count(*) from deliveries") == 0
