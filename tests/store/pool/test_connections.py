"""The connections of a pool, which are used again and again for as long as a process runs."""

import pytest

from tests.databases import SCHEMA
from tests.rows import NOW, add_waiting
from tests.store.plans import explain_kept, keep_plan, rows_read
from tocsin.domain.ids import new_lease_id
from tocsin.store import pool as pools
from tocsin.store.deliveries.settle import SentDelivery, settle_sent
from tocsin.store.pool import PoolSettings, open_pool

ONE = PoolSettings(size=2)
ENTRIES_READ = "select pg_stat_get_xact_tuples_returned('deliveries_due_by_lane'::regclass)"
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


async def test_a_settlement_reads_no_backlog_that_the_statistics_do_not_have(database_url: str) -> None:
    """Planned by its values, it would read the index of what waits: by the statistics nothing does."""
    async with open_pool(database_url, SCHEMA, ONE, lookups_only=True) as pool, pool.acquire() as connection:
        await add_waiting(connection, 500, state="sent")
        await connection.execute("analyze")
        await add_waiting(connection, 500)
        claimed = await pool.fetch("select id from deliveries where state = 'pending' limit 5")
        lease = new_lease_id()
        sent = [
            SentDelivery(id=each["id"], lease=lease, provider="fcm", message_id="m", device_id=None)
            for each in claimed
        ]

        async with connection.transaction():
            assert (await settle_sent(connection, sent, NOW)).count == 5
            assert await connection.fetchval(ENTRIES_READ) == 0


async def test_an_open_transaction_ends_with_the_use_of_its_connection(database_url: str) -> None:
    async with open_pool(database_url, SCHEMA, ONE) as pool:
        async with pool.acquire() as connection:
            await connection.execute("begin")
            await add_waiting(connection, 1)
        async with pool.acquire() as connection:
            assert await connection.fetchval("select count(*) from deliveries") == 0
