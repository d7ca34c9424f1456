"""A pass of retention reads no more than it prunes, however much is kept."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pytest

from tests.databases import fresh_database
from tests.rows import add_digest
from tests.store.plans import explain_kept, indexes, keep_plan, rows_read, worker_connection
from tocsin.domain.delivery.states import WAITING
from tocsin.domain.ids import first_id_at, uuid7
from tocsin.store.pool import Connection
from tocsin.store.retention import settled
from tocsin.store.retention.tables import RULES

NOW = datetime.now(UTC)
THEN = NOW - timedelta(days=400)
CUTOFF = NOW - timedelta(days=30)
BEFORE = first_id_at(CUTOFF)
BATCH, KEPT = 100, 5_000
WAIT = sorted(WAITING)
OLD = [first_id_at(THEN + timedelta(seconds=number)) for number in range(BATCH)]
EMPTIED = [first_id_at(THEN - timedelta(seconds=number)) for number in range(1, KEPT)]
"""Old ones of which only the key is left."""
OLD_DIGEST = first_id_at(THEN)
BY_NOTIFICATION, OF_DIGEST, CARRYING = (
    "deliveries_by_notification_and_user",
    "deliveries_of_digest",
    "deliveries_carrying",
)


class Pinned(NamedTuple):
    """A statement with its arguments, and the indexes by which it reads a table."""

    statement: str
    arguments: tuple[Any, ...]
    indexes: dict[str, set[str]]


PINNED = {
    "list notifications": Pinned(
        settled.NOTIFICATIONS,
        (settled.START, BEFORE, BATCH, WAIT),
        {"notifications": set(), "deliveries": {BY_NOTIFICATION}},
    ),
    "read deliveries": Pinned(settled.DELIVERIES, (OLD[0], WAIT), {"deliveries": {BY_NOTIFICATION}}),
    "list without deliveries": Pinned(
        settled.WITHOUT_DELIVERIES,
        (settled.START, BEFORE, BATCH),
        {"notifications": {"notifications_pkey"}, "deliveries": {BY_NOTIFICATION}},
    ),
    "prune deliveries": Pinned(
        settled.PRUNE_DELIVERIES,
        (OLD, CUTOFF, WAIT, BATCH),
        {
            "notifications": {"notifications_pkey"},
            "deliveries": {BY_NOTIFICATION, "deliveries_pkey"},
            "devices": {"devices_pkey"},
        },
    ),
    "delete notifications": Pinned(
        settled.DELETE_NOTIFICATIONS,
        (OLD,),
        {"notifications": {"notifications_pkey"}, "deliveries": {BY_NOTIFICATION}},
    ),
    "empty notifications": Pinned(
        settled.EMPTY_NOTIFICATIONS,
        (OLD, NOW),
        {"notifications": {"notifications_pkey"}, "deliveries": {BY_NOTIFICATION}},
    ),
    "list digests": Pinned(
        settled.DIGESTS,
        (settled.START, BEFORE, BATCH, WAIT),
        {"digests": {"digests_pkey"}, "deliveries": {OF_DIGEST}},
    ),
    "prune carriers": Pinned(
        settled.PRUNE_CARRIERS,
        ([OLD_DIGEST], CUTOFF, WAIT, BATCH),
        {
            "digests": {"digests_pkey"},
            "deliveries": {CARRYING, "deliveries_pkey"},
            "devices": {"devices_pkey"},
        },
    ),
    "delete digests": Pinned(
        settled.DELETE_DIGESTS,
        ([OLD_DIGEST], WAIT),
        {"digests": {"digests_pkey"}, "deliveries": {OF_DIGEST}},
    ),
} | {
    f"prune {rule.table}": Pinned(rule.delete, (BEFORE if rule.column == "id" else CUTOFF, BATCH), {})
    for rule in RULES
}
BY_TIME = {
    "notifications": "notifications_by_pruning",
    "refused_intents": "refused_intents_by_time",
    "limit_counters": "limit_counters_by_end",
    "registration_rates": "registration_rates_by_window",
    "provider_counts": "provider_counts_by_minute",
    "audit": "audit_pkey",
    "erasures": "erasures_pkey",
    "alarms": "alarms_by_time",
    "toggle_changes": "toggle_changes_by_time",
}

# Either lists notifications by their ids.
SAME = {"notifications_in_order": "notifications_pkey"}

FILL = (
    """
    insert into notifications (
        id, producer, idempotency_key, fingerprint, type, version, audience, payload, accepted_at
    )
    select id, 'shop', id::text, '', 't', 1, '{}', '{}', $2 from unnest($1::uuid[]) as given (id)
    """,
    """
    insert into deliveries (id, notification_id, channel, user_id, state, due_at, created_at, settled_at)
    select gen_random_uuid(), id, 'push', 'ada', 'sent', $2::timestamptz, $2, $2
    from unnest($1::uuid[]) as given (id)
    """,
    """
    insert into refused_intents (id, producer, source, code, faults, content, refused_at)
    select id, 'shop', 'http', 'c', '[]', '', $2 from unnest($1::uuid[]) as given (id)
    """,
    "insert into limit_counters select id::text, $2, 1 from unnest($1::uuid[]) as given (id)",
    "insert into registration_rates select id::text, $2, 1 from unnest($1::uuid[]) as given (id)",
    "insert into provider_counts select 'fcm', $2, 'sent', id::text, 1 from unnest($1::uuid[]) as given (id)",
    "insert into audit select id, $2, 'ada', 'toggle.on', 'x', '{}' from unnest($1::uuid[]) as given (id)",
    """
    insert into erasures (id, user_hash, requested_at, finished_at)
    select id, 'h', $2::timestamptz, $2 from unnest($1::uuid[]) as given (id)
    """,
    """
    insert into alarms (id, provider, code, detail, raised_at, last_at, count, cleared_at)
    select id, 'fcm', id::text, '', $2::timestamptz, $2, 1, $2 from unnest($1::uuid[]) as given (id)
    """,
    """
    insert into toggle_changes (name, was_enabled, enabled, changed_by, changed_at)
    select 'type:' || number % 40, true, false, 'ada', $2
    from unnest($1::uuid[]) with ordinality as given (id, number)
    """,
)


async def fill(connection: Connection) -> None:
    young = [uuid7() for _ in range(KEPT)]
    await connection.execute(FILL[0], EMPTIED, THEN)
    await connection.execute(
        "update notifications"
        " set pruned_at = case when id = any($1::uuid[]) then $2::timestamptz else $3 end",
        EMPTIED[:BATCH],
        THEN,
        NOW,
    )
    for statement in FILL:
        await connection.execute(statement, OLD, THEN)
        await connection.execute(statement, young, NOW)
    for digest_id, at in ((OLD_DIGEST, THEN), *((uuid7(), NOW) for _ in range(200))):
        await add_digest(connection, id=digest_id, key=str(digest_id), state="ended", opened_at=at)
        await connection.execute(
            """
            insert into deliveries (id, digest_id, channel, state, due_at, created_at, settled_at)
            select gen_random_uuid(), $1, 'push', 'sent', $2::timestamptz, $2, $2 from generate_series(1, 5)
            """,
            digest_id,
            at,
        )


@pytest.fixture(scope="module", params=["planned on empty tables", "analyzed"])
async def planned(
    request: pytest.FixtureRequest, server_url: str, template_database: str
) -> AsyncIterator[Connection]:
    """Open a worker's connection to a database with many young rows and few old ones, plans kept."""
    async with (
        fresh_database(server_url, template_database) as url,
        worker_connection(url) as connection,
        worker_connection(url) as other,
    ):
        if request.param == "analyzed":
            await fill(other)
            await other.execute("analyze")
        for name, pinned in PINNED.items():
            await keep_plan(connection, name, pinned.statement, *pinned.arguments)
        if request.param == "planned on empty tables":
            await fill(other)
        yield connection


@pytest.mark.parametrize("name", PINNED)
async def test_a_pass_reads_what_it_prunes_and_no_more(planned: Connection, name: str) -> None:
    pinned = PINNED[name]
    table = name.removeprefix("prune ")
    expected = {table: {BY_TIME[table], "Tid Scan"}} if table in BY_TIME else pinned.indexes
    executing = planned.transaction()
    await executing.start()
    try:
        plan = await explain_kept(planned, name, *pinned.arguments)
    finally:
        await executing.rollback()

    assert not [node["Relation Name"] for node in plan if node["Node Type"] == "Seq Scan"]
    for relation, used in expected.items():
        by = {SAME.get(index, index) for index in indexes(plan, relation)}
        assert by - {"toggle_changes_by_name"} == used
        assert rows_read(plan, relation) <= 4 * BATCH
