"""The reads of one person's rows use an index, however many people there are."""

import hashlib
from collections.abc import AsyncIterator
from uuid import UUID

import pytest

from tests.databases import SCHEMA, fresh_database
from tests.store.plans import explain_kept, indexes, keep_plan, rows_read, scans
from tocsin.domain.ids import uuid7
from tocsin.store.people import devices
from tocsin.store.people.endpoints import platform as platform_endpoints
from tocsin.store.people.endpoints import webhook as endpoints
from tocsin.store.people.sent_counts import MOST_COUNTED, SENT
from tocsin.store.pool import Connection, PoolSettings, open_pool


def device_id(number: int) -> UUID:
    """Return the id of a device of the person who has many."""
    return UUID(hashlib.md5(f"device{number}".encode(), usedforsecurity=False).hexdigest())


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
DEVICES = 200
FILL_HEAVY = """
insert into devices (id, user_id, provider, platform, token, token_hash, registered_at, last_seen_at)
select md5('device' || number)::uuid, 'heavy', 'fcm', 'ios', 'heavy.' || number,
    sha256(('heavy.' || number)::bytea), now(), now()
from generate_series(0, $1::integer - 1) as number
"""
# One person has many devices and got more than is counted; the others got little.
FILL_DELIVERIES = """
insert into deliveries (
    id, notification_id, channel, lane, user_id, device_id, state, due_at, created_at, settled_at
)
select
    gen_random_uuid(), gen_random_uuid(), 'push', 'fcm', user_id, md5('device' || number % $2)::uuid, 'sent',
    now(), now(), now()
from (
    select 'heavy' as user_id, number
    from generate_series(1, $1::integer) as number
    union all
    select 'user' || person, number
    from generate_series(1, 2000) as person, generate_series(1, 2) as number
) as got
order by random()
"""
SENT_TO = ("heavy", [device_id(number) for number in range(DEVICES)], MOST_COUNTED)
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
            await connection.execute(FILL_HEAVY, DEVICES)
            await connection.execute(FILL_DELIVERIES, MOST_COUNTED + 2_000, DEVICES)
            await connection.execute("analyze devices, deliveries")
        for name, (statement, arguments) in (statements | WRITES).items():
            await keep_plan(connection, name, statement, *arguments)
        await keep_plan(connection, "sent", SENT, *SENT_TO)
        if request.param != "analyzed":
            await connection.execute(FILL, PEOPLE)
            await connection.execute(FILL_HEAVY, DEVICES)
            await connection.execute(FILL_DELIVERIES, MOST_COUNTED + 2_000, DEVICES)
        yield connection


@pytest.mark.parametrize("name", LISTS)
async def test_a_list_reads_the_rows_of_its_person(kept: Connection, name: str) -> None:
    _, arguments, listed = LISTS[name]

    plan = await explain_kept(kept, name, *arguments)

    assert indexes(plan, "devices") <= {OF_USER, "devices_active"}
    assert plan[0]["Actual Rows"] == listed
    # A person has twelve rows here: devices and endpoints, active and retired.
    assert rows_read(plan, "devices") <= 12
    assert scans(plan) == []


@pytest.mark.parametrize("name", WRITES)
async def test_a_write_reads_no_more_than_the_rows_of_its_person(kept: Connection, name: str) -> None:
    _, arguments = WRITES[name]

    plan = await explain_kept(kept, name, *arguments)

    assert rows_read(plan, "devices") <= 12
    # Reading deliveries for a count would prolong the locks of a write.
    assert scans(plan) == []


async def test_what_was_sent_to_all_devices_of_a_person_is_read_once(kept: Connection) -> None:
    plan = await explain_kept(kept, "sent", *SENT_TO)

    (scan,) = scans(plan)
    assert (scan["Index Name"], scan["Actual Loops"]) == ("deliveries_of_user", 1)
    assert rows_read(plan) == MOST_COUNTED
    assert plan[0]["Actual Rows"] == DEVICES
    assert rows_read(plan, "devices") <= DEVICES
    # No delivery is compared with each of the devices.
    compared = sum(node.get("Rows Removed by Join Filter", 0) * node["Actual Loops"] for node in plan)
    assert compared <= DEVICES * DEVICES
