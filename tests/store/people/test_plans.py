"""The reads of one person's rows use an index, however many people there are."""

from collections.abc import AsyncIterator

import pytest

from tests.databases import SCHEMA, fresh_database
from tests.store.plans import explain_kept, indexes, keep_plan, rows_read
from tocsin.domain.ids import uuid7
from tocsin.store.people import devices, endpoints, platform_endpoints
from tocsin.store.pool import Connection, PoolSettings, open_pool

PEOPLE = 5_000
OF_USER = "devices_of_user"
FILL = """
insert into devices (
    id, user_id, provider, platform, token, token_hash, secret, registered_at, last_seen_at, retired_at,
    retired_reason
)
select
    gen_random_uuid(), 'user' || person,
    case when number % 3 = 0 then 'webhook' else 'fcm' end,
    case when number % 3 = 0 then 'server' else 'ios' end,
    person || '.' || number, sha256((person || '.' || number)::bytea),
    case when number % 3 = 0 then 'secret' end, now(), now(),
    case when number >= 6 then now() end, case when number >= 6 then 'unregistered' end
from generate_series(1, $1::integer) as person, generate_series(0, 11) as number
"""
LISTS = {
    "active devices": (devices.ACTIVE_OF_USER, ("user7", 200), 4),
    "all devices": (devices.OF_USER, ("user7", 200), 8),
    "active endpoints": (endpoints.ACTIVE_OF_USER, ("user7", 200), 2),
    "all endpoints": (endpoints.OF_USER, ("user7", 200), 4),
    "devices of nobody": (devices.OF_USER, ("nobody", 200), 0),
}
WRITES = {
    "unregister": (devices.UNREGISTER, ("user7", b"\x01".hex(), uuid7(), "2026-03-01T12:00:00Z", "x")),
    "endpoints of a token": (platform_endpoints.FIND_OWN, ("user7", '{"\\\\x01"}', 4)),
    "retire_same_token": (
        platform_endpoints.RETIRE_SAME_TOKEN,
        (uuid7(), "\\x01", "2026-03-01T12:00:00Z", "x"),
    ),
    "set_consent": (devices.SET_CONSENT, ("user7", uuid7(), "true")),
}


@pytest.fixture(scope="module", params=["planned on an empty table", "analyzed"])
async def kept(
    request: pytest.FixtureRequest, server_url: str, template_database: str
) -> AsyncIterator[Connection]:
    async with (
        fresh_database(server_url, template_database) as url,
        open_pool(url, SCHEMA, PoolSettings()) as pool,
        pool.acquire() as connection,
    ):
        statements = {name: (statement, arguments) for name, (statement, arguments, _) in LISTS.items()}
        if request.param == "analyzed":
            await connection.execute(FILL, PEOPLE)
            await connection.execute("analyze devices")
        for name, (statement, arguments) in (statements | WRITES).items():
            await keep_plan(connection, name, statement, *arguments)
        if request.param != "analyzed":
            await connection.execute(FILL, PEOPLE)
        yield connection


@pytest.mark.parametrize("name", LISTS)
async def test_a_list_reads_the_rows_of_its_person(kept: Connection, name: str) -> None:
    _, arguments, listed = LISTS[name]

    plan = await explain_kept(kept, name, *arguments)

    assert indexes(plan, "devices") <= {OF_USER, "devices_active"}
    assert plan[0]["Actual Rows"] == listed
    # A person has twelve rows here: devices and endpoints, active and retired.
    assert rows_read(plan, "devices") <= 12


@pytest.mark.parametrize("name", WRITES)
async def test_a_write_reads_no_more_than_the_rows_of_its_person(kept: Connection, name: str) -> None:
    _, arguments = WRITES[name]

    assert rows_read(await explain_kept(kept, name, *arguments), "devices") <= 12
