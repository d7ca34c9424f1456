"""The next people of an audience are read by an index, however many there are and wherever the cursor is."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from tests.databases import SCHEMA
from tests.store.plans import explain_kept, indexes, keep_plan, rows_read, worker_connection
from tocsin.domain.ids import uuid7
from tocsin.store.broadcasts.members import (
    NEXT_OF_EVERYONE,
    NEXT_OF_ORGANISATION,
    NEXT_OF_SEGMENT,
    NEXT_OF_SEGMENT_WITHIN,
    NEXT_WITH_ATTRIBUTES,
)
from tocsin.store.broadcasts.segments import FORGET
from tocsin.store.deliveries.queue import UNCLAIMED
from tocsin.store.pool import Pool, PoolSettings, open_pool

PEOPLE = 30_000
EXAMINED, CHUNK = 500, 100
SEGMENT = UUID("01900000-0000-7000-8000-000000000001")
FILL = """
with people as (
    insert into users (user_id, updated_at, org_id, attributes)
    select
        'user' || lpad(number::text, 6, '0'), now(), 'org' || number % 10,
        jsonb_build_object('plan', 'plan' || number % 50)
    from generate_series(1, $1::integer) as number
    returning user_id
),
phones as (
    insert into devices (
        id, user_id, provider, platform, token, token_hash, registered_at, last_seen_at
    )
    select gen_random_uuid(), user_id, 'fcm', 'android', user_id, sha256(user_id::bytea), now(), now()
    from people
),
members as (
    insert into segment_members (segment_id, user_id)
    select $2, user_id
    from people
)
insert into segments (id, name, state, members, updated_at)
values ($2, 'vip', 'current', $1, now())
"""
START, MIDDLE = "", "user015000"
STATEMENTS: dict[str, tuple[str, tuple[Any, ...]]] = {
    "everyone": (NEXT_OF_EVERYONE, ()),
    "organisation": (NEXT_OF_ORGANISATION, ("org3",)),
    "attributes": (NEXT_WITH_ATTRIBUTES, ('{"plan": "plan7"}', None)),
    "segment": (NEXT_OF_SEGMENT, (SEGMENT,)),
    "segment within": (NEXT_OF_SEGMENT_WITHIN, (SEGMENT, "org3")),
}


@pytest.mark.parametrize("name", STATEMENTS)
async def test_a_stretch_reads_no_more_than_it_examines(database_url: str, pool: Pool, name: str) -> None:
    statement, given = STATEMENTS[name]
    async with (
        open_pool(database_url, SCHEMA, PoolSettings()) as opened,
        opened.acquire() as connection,
    ):
        await keep_plan(connection, "empty", statement, START, CHUNK, EXAMINED, *given)
        await pool.execute(FILL, PEOPLE, SEGMENT)
        await pool.execute("analyze users, devices, segment_members")
        await keep_plan(connection, "full", statement, START, CHUNK, EXAMINED, *given)
        for kept in ("empty", "full"):
            for after in (START, MIDDLE):
                plan = await explain_kept(connection, kept, after, CHUNK, EXAMINED, *given)
                for table in ("users", "devices", "segment_members"):
                    assert rows_read(plan, table) <= 2 * EXAMINED, (kept, after, table)
                    assert "Seq Scan" not in indexes(plan, table)


async def test_a_person_is_found_in_segments_by_the_index(database_url: str, pool: Pool) -> None:
    async with worker_connection(database_url) as connection:
        await keep_plan(connection, "forget", FORGET, "nobody", None)
        await pool.execute(FILL, PEOPLE, SEGMENT)
        plan = await explain_kept(connection, "forget", "nobody", None)

    assert indexes(plan, "segment_members") == {"segment_members_of_user"}


async def test_what_is_unclaimed_is_counted_in_the_due_index(database_url: str, pool: Pool) -> None:
    now = datetime.now(UTC)
    notification_id = uuid7()
    await pool.execute(
        "insert into notifications (id, producer, idempotency_key, fingerprint, type, version, audience,"
        " payload, accepted_at) values ($1, 'p', 'k', '', 't', 1, '{}', '{}', now())",
        notification_id,
    )
    fill = """
    insert into deliveries (id, notification_id, channel, user_id, lane, state, due_at, created_at)
    select gen_random_uuid(), $1, 'push', 'u' || number, 'fcm', 'pending', $2, now()
    from generate_series(1, 20000) as number
    """
    given = (["fcm", "fanout"], now - timedelta(seconds=10), now, 501)
    async with (
        open_pool(database_url, SCHEMA, PoolSettings()) as opened,
        opened.acquire() as connection,
    ):
        await keep_plan(connection, "count", UNCLAIMED, *given)
        await pool.execute(fill, notification_id, now - timedelta(seconds=1))
        plan = await explain_kept(connection, "count", *given)

    assert indexes(plan) == {"deliveries_due_by_lane"}
    assert rows_read(plan) <= 502
