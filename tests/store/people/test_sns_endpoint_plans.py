"""The endpoints of people are found and retired by an index, however many devices there are."""

from datetime import timedelta

from tests.databases import SCHEMA
from tests.store.plans import explain_kept, indexes, keep_plan, rows_read
from tocsin.domain.people.devices import token_hash
from tocsin.engine.clock import utc_now
from tocsin.store.people.endpoints import sns as sns_endpoints
from tocsin.store.pool import Pool, PoolSettings, open_pool

DEVICES = 20_000
FILL = """
insert into devices (id, user_id, provider, platform, token, token_hash, registered_at, last_seen_at)
select gen_random_uuid(), 'user' || number / 2, 'sns', 'android', 'arn' || number,
    sha256(convert_to('arn' || number, 'utf8')), now(), now()
from generate_series(1, $1::integer) as number
"""


async def test_plans_made_on_empty_tables_read_a_few_rows_of_full_ones(database_url: str, pool: Pool) -> None:
    find = (["user7", "user8"], "sns", 100)
    hashed = "\\x" + token_hash("arn7").hex()
    retire = (hashed, "sns", utc_now(), "gone: NotFound", utc_now() + timedelta(days=1))
    async with open_pool(database_url, SCHEMA, PoolSettings()) as opened, opened.acquire() as connection:
        await keep_plan(connection, "find", sns_endpoints.FIND, *find)
        await keep_plan(connection, "retire", sns_endpoints.RETIRE, *retire)
        await pool.execute(FILL, DEVICES)
        found = await explain_kept(connection, "find", *find)
        retired = await explain_kept(connection, "retire", *retire)

    assert indexes(found, "devices") <= {"devices_active", "devices_of_user"}
    assert rows_read(found, "devices") == 4
    assert indexes(retired, "devices") == {"devices_one_per_token"}
    assert rows_read(retired, "devices") == 1
