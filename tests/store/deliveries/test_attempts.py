"""The attempts of a delivery are read by its id, however many others have."""

from tests.databases import SCHEMA
from tests.rows import NOW, add_delivery
from tests.store.plans import explain_kept, indexes, keep_plan, rows_read
from tocsin.store.deliveries.read import ATTEMPTS_OF
from tocsin.store.pool import PoolSettings, open_pool

FILL = """
insert into attempts (delivery_id, outcome, code, detail, at)
select $1, 'retry', 'X', '', $2
from generate_series(1, $3::integer)
"""


async def test_the_newest_attempts_are_found_by_their_delivery(database_url: str) -> None:
    """Also if the attempts of one delivery are the most and it is the newest."""
    async with open_pool(database_url, SCHEMA, PoolSettings()) as pool, pool.acquire() as connection:
        few, many = await add_delivery(connection), await add_delivery(connection)
        await connection.execute(FILL, few, NOW, 20)
        await connection.execute(FILL, many, NOW, 5_000)
        await connection.execute("analyze attempts")
        await keep_plan(connection, "attempts", ATTEMPTS_OF, [few], 10)

        plan = await explain_kept(connection, "attempts", [few], 10)

    assert indexes(plan, "attempts") == {"attempts_by_delivery"}
    assert rows_read(plan, "attempts") == 20
