"""Whether people are of an organisation is looked up by a key, however many people there are."""

from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import pytest

from tests.databases import SCHEMA, fresh_database
from tests.store.plans import explain_kept, indexes, keep_plan, rows_read
from tocsin.store.people import organisations, users
from tocsin.store.people.users import with_attributes
from tocsin.store.pool import Connection, PoolSettings, open_pool
from tocsin.store.sources import refused

PEOPLE = 20_000
LARGEST, SMALL = 4, "org7"
FILL = """
insert into users (user_id, updated_at, email, attributes, org_id)
select
    'user' || number, now(), 'User' || number || '@example.org', '{"plan": "pro"}',
    case number % 4 when 0 then null when 1 then 'large' else 'org' || number % 1000 end
from generate_series(1, $1::integer) as number
"""
FILL_REFUSED = """
insert into refused_intents (id, producer, source, code, faults, content, refused_at, org_id)
select lpad(to_hex(number), 32, '0')::uuid, 'shop', 'http', 'c', '[]', '', now(), 'org' || number % 100
from generate_series(1, $1::integer) as number
"""
NAMED = [f"user{number}" for number in range(1, 101)]
LAST = UUID(int=(1 << 128) - 1)
READ: dict[str, tuple[str, tuple[Any, ...], str, str, int]] = {
    "users": (organisations.OUTSIDERS, (["large"] * 100, NAMED), "users", "users_pkey", 100),
    "addresses": (
        organisations.OUTSIDE_ADDRESSES,
        (["large"] * 100, [f"{each}@example.org" for each in NAMED]),
        "users",
        "users_of_org",
        100,
    ),
    "one": (organisations.MEMBERSHIP, ("user7",), "users", "users_pkey", 1),
    "refused": (
        refused.LIST_OF_ORG,
        (LAST, 20, SMALL),
        "refused_intents",
        "refused_intents_of_org",
        20,
    ),
}


async def fill(connection: Connection) -> None:
    await connection.execute(FILL, PEOPLE)
    await connection.execute(FILL_REFUSED, PEOPLE)


@pytest.fixture(scope="module", params=["planned on empty tables", "analyzed"])
async def kept(
    request: pytest.FixtureRequest, server_url: str, template_database: str
) -> AsyncIterator[Connection]:
    async with (
        fresh_database(server_url, template_database) as url,
        open_pool(url, SCHEMA, PoolSettings()) as pool,
        pool.acquire() as connection,
    ):
        if request.param == "analyzed":
            await fill(connection)
            await connection.execute("vacuum analyze")
        for name, (statement, arguments, *_) in READ.items():
            await keep_plan(connection, name, statement, *arguments)
        if request.param != "analyzed":
            await fill(connection)
        yield connection


@pytest.mark.parametrize("name", READ)
async def test_each_is_one_look_up(kept: Connection, name: str) -> None:
    _, arguments, table, index, most = READ[name]
    plan = await explain_kept(kept, name, *arguments)

    assert indexes(plan, table) == {index}
    assert rows_read(plan, table) <= most


async def test_people_of_a_small_organisation_are_found_by_its_index_even_if_all_have_the_attribute(
    kept: Connection,
) -> None:
    # The statement is planned for its values, as the connections of the API do.
    await kept.execute("set plan_cache_mode = auto")
    async with kept.transaction():
        await kept.execute(users.USE_BITMAPS)
        text = await kept.fetchval(
            "explain (format text) "
            + users.WITH_ATTRIBUTES_WITHIN.replace("$1", '\'{"plan": "pro"}\'')
            .replace("$2", "100")
            .replace("$3", f"'{SMALL}'")
        )
    found = await with_attributes(kept, {"plan": "pro"}, 100, SMALL)
    await kept.execute("set plan_cache_mode = force_generic_plan")

    assert "Seq Scan" not in text
    assert found == sorted(f"user{number}" for number in range(7, PEOPLE, 1000))
