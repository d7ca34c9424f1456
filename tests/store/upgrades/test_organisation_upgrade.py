"""Organisations in a database of the version before, and beside its processes."""

from collections.abc import AsyncIterator
from uuid import UUID

import asyncpg
import pytest
from pogo_core.util import migrate as pogo

from tests.databases import SCHEMA
from tests.rows import NOW, add_notification, add_user
from tests.store.upgrades.earlier_version import earlier_database
from tocsin.domain.ids import LAST, uuid7
from tocsin.store import keys, notifications
from tocsin.store.deliveries.search import Span, find
from tocsin.store.keys import KeyRow
from tocsin.store.migrate import MIGRATIONS
from tocsin.store.people import organisations, users
from tocsin.store.pool import PoolSettings, connect
from tocsin.store.sources import refused
from tocsin.wire.filters import DeliveryFilter

LAST_BEFORE = "0029"
OLD_PUT = """
insert into users (user_id, email, updated_at)
select *
from unnest($1::text[], $2::text[], $3::timestamptz[])
on conflict (user_id) do update set email = excluded.email, updated_at = excluded.updated_at
"""
OLD_KEY = """
insert into api_keys (id, producer, role, key_hash, hint, created_at)
values ($1, 'billing', 'producer', $2, 'abcd', $3)
"""
EVERYTHING = Span(LAST, UUID(int=0))
"""Every id of a notification."""


@pytest.fixture
async def old(server_url: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[asyncpg.Connection]:
    """Open a database as the version before organisations left it."""
    folder = tmp_path_factory.mktemp("migrations")
    async with earlier_database(server_url, folder, LAST_BEFORE) as url:
        connection = await connect(url, SCHEMA, PoolSettings())
        try:
            yield connection
        finally:
            await connection.close()


async def test_what_was_there_is_of_no_organisation(old: asyncpg.Connection) -> None:
    key_id = uuid7()
    made = await add_notification(old, idempotency_key="k")
    await add_user(old, "ada", email="ada@example.org")
    await old.execute(OLD_KEY, key_id, b"h" * 32, NOW)

    await pogo.apply(old, MIGRATIONS, schema_name=SCHEMA)

    found, person = await notifications.get(old, made), await users.get(old, "ada")
    live = await keys.find_live(old, b"h" * 32)
    assert found
    assert person
    assert live
    assert (found.org_id, person.org_id, live.org_id) == (None, None, None)
    assert not await organisations.is_member(old, "acme", "ada")
    assert await refused.list_recent(old, LAST, 10, "acme") == []
    for org_id, ids in ((None, [made]), ("acme", [])):
        assert (await find(old, DeliveryFilter(org_id=org_id), EVERYTHING, 100, 10)).ids == ids


async def test_processes_of_the_version_before_run_beside_this_one(old: asyncpg.Connection) -> None:
    await pogo.apply(old, MIGRATIONS, schema_name=SCHEMA)
    await add_user(old, "ada", org_id="acme")
    await old.execute(OLD_PUT, ["ada", "bob"], ["ada@example.org", "bob@example.org"], [NOW, NOW])
    made = await add_notification(old)

    # What it does not know of is kept where it was, and of nobody where it is new.
    assert await organisations.outsiders(old, ["acme", "acme"], ["ada", "bob"]) == {1}
    assert await organisations.outside_addresses(
        old, ["acme"] * 2, ["ADA@example.org", "bob@example.org"]
    ) == {1}
    assert (await find(old, DeliveryFilter(), EVERYTHING, 100, 10)).ids == [made]
    assert (await find(old, DeliveryFilter(org_id="acme"), EVERYTHING, 100, 10)).ids == []


async def test_the_rollback_leaves_no_trace(old: asyncpg.Connection) -> None:
    await pogo.apply(old, MIGRATIONS, schema_name=SCHEMA)
    row = KeyRow(
        id=uuid7(),
        producer="crm",
        role="producer",
        hint="abcd",
        created_at=NOW,
        last_used_at=None,
        revoked_at=None,
        org_id="acme",
    )
    await keys.create(old, row, b"k" * 32)
    for migration in (
        "0046_oidc_sessions",
        "0043_inbox",
        "0042_broadcasts",
        "0041_erasure_organisations",
        "0030_organisations_indexes",
        "0030_organisations",
    ):
        _, rollback = (MIGRATIONS / f"{migration}.sql").read_text().split("-- migrate: rollback")
        for statement in filter(str.strip, rollback.split(";")):
            await old.execute(statement)

    assert await old.fetchval("select count(*) from api_keys") == 1
    left = (
        "select count(*) from information_schema.columns where column_name = 'org_id' and table_schema = $1"
    )
    assert await old.fetchval(left, SCHEMA) == 0
