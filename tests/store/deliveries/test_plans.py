"""No statement of a worker reads more of a backlog than it works on, however long its plan is kept."""

from collections.abc import AsyncIterator, Mapping
from datetime import timedelta
from typing import Any, NamedTuple
from uuid import UUID

import pytest

from tests.databases import fresh_database
from tests.rows import NEVER, NOW, add_device, add_digest, add_notification, add_waiting
from tests.store.plans import Node, explain_kept, indexes, keep_plan, rows_read, scans, worker_connection
from tocsin.domain.catalog import CHANNELS
from tocsin.domain.delivery.states import CLAIMED, WAITING
from tocsin.domain.ids import new_lease_id, uuid7
from tocsin.store.deliveries import (
    claim,
    context,
    digests,
    expiry,
    failover,
    fan_out,
    holds,
    settle,
    successors,
)
from tocsin.store.health import overdue, provider_health
from tocsin.store.pool import Connection

LATER = NOW + timedelta(seconds=10)
BACKLOG = 20_000
BATCH = 50
DUE = "deliveries_due_by_lane"
BY_ID = "deliveries_pkey"
HELD = "deliveries_held"
UNKNOWN = "deliveries_of_unknown_type"
IN_ORDER = "deliveries_in_order"
COLLAPSIBLE = "deliveries_collapsible"
OF_DIGEST = "deliveries_of_digest"
CARRYING = "deliveries_carrying"
BY_NOTIFICATION = "deliveries_by_notification_and_user"
# The deliveries of a notification to one person are looked up by either: both read those rows alone.
SAME = {"deliveries_of_user": BY_NOTIFICATION}
LEASE = new_lease_id()
LEASED = [uuid7() for _ in range(BATCH)]
DEVICE, DIGEST, MEMBER, NEWEST = uuid7(), uuid7(), uuid7(), uuid7()
NOTIFICATION, SET = uuid7(), uuid7()
GROUPS = [f"group{number}" for number in range(20)]


class Pinned(NamedTuple):
    """A statement with its arguments, the indexes it reads deliveries by, and how many rows at most."""

    statement: str
    arguments: tuple[Any, ...]
    indexes: set[str]
    rows: int


def each(value: Any) -> list[Any]:
    return [value] * BATCH


CLAIM_INDEXES = {DUE, BY_ID}
CLAIMING = (LATER, new_lease_id(), LATER, claim.START.due_at, claim.START.id, BATCH)
PINNED: Mapping[str, Pinned] = {
    "claim": Pinned(claim.CLAIM, ("expo", *CLAIMING), CLAIM_INDEXES, 2 * BATCH),
    "claim from a backlog": Pinned(claim.CLAIM, ("fcm", *CLAIMING), CLAIM_INDEXES, 2 * BATCH),
    "take over": Pinned(
        claim.TAKE_OVER,
        ("expo", LATER, new_lease_id(), LATER, claim.LOOK_AHEAD),
        CLAIM_INDEXES,
        claim.LOOK_AHEAD,
    ),
    "take over from a backlog": Pinned(
        claim.TAKE_OVER,
        ("fcm", LATER, new_lease_id(), LATER, claim.LOOK_AHEAD),
        CLAIM_INDEXES,
        claim.LOOK_AHEAD,
    ),
    "context of a claim": Pinned(
        context.CONTEXT, (LEASED, LATER), {BY_ID, IN_ORDER, COLLAPSIBLE, BY_NOTIFICATION}, 2 * BATCH
    ),
    "any_due": Pinned(claim.ANY_DUE, ("fcm", LATER), {DUE}, 1),
    "any_due of an idle lane": Pinned(claim.ANY_DUE, ("webhook", LATER), {DUE}, 0),
    "order_blockers": Pinned(context.ORDER_BLOCKERS, ("group0", LATER), {IN_ORDER}, 100),
    "move": Pinned(fan_out.MOVE, (LEASED, each("apns"), LEASE), {BY_ID}, BATCH),
    "lock_leased": Pinned(fan_out.LOCK_LEASED, (LEASED, LEASE), {BY_ID}, BATCH),
    "mark_reserved": Pinned(fan_out.MARK_RESERVED, (LEASED, LEASE), {BY_ID}, BATCH),
    "fan_out": Pinned(
        fan_out.FAN_OUT,
        (
            *(LEASED[:2] + LEASED[:2], [None, None, uuid7(), uuid7()], [DEVICE] * 4, ["fcm"] * 4),
            *([True] * 4, [False] * 4, [True] * 4, LEASE, LATER),
        ),
        {BY_ID},
        4,
    ),
    "waiting_lanes": Pinned(fan_out.WAITING_LANES, (), {DUE}, 10),
    "leave_lane": Pinned(fan_out.LEAVE_LANE, ("apns", LATER, BATCH), {DUE, BY_ID}, 2 * BATCH),
    "held_by": Pinned(holds.HELD_BY, (), {HELD}, 10),
    "unknown types": Pinned(holds.UNKNOWN_TYPES, (), {UNKNOWN}, 10),
    "release a type": Pinned(
        holds.RELEASE_TYPE, ("x@1", LATER, BATCH, list(CHANNELS)), {UNKNOWN, BY_ID}, 2 * BATCH
    ),
    "release": Pinned(holds.RELEASE, ("type:x", LATER, BATCH, list(CHANNELS)), {HELD, BY_ID}, 2 * BATCH),
    "release_next": Pinned(holds.RELEASE_NEXT, (GROUPS, LATER), {IN_ORDER, BY_ID}, 100),
    "cancel": Pinned(holds.CANCEL, (NOTIFICATION, LATER), {BY_NOTIFICATION, CARRYING}, 2),
    "reschedule": Pinned(holds.RESCHEDULE, (NOTIFICATION, LATER, LATER), {BY_NOTIFICATION, CARRYING}, 2),
    "settle_sent": Pinned(
        settle.SETTLE_SENT,
        (
            *(LEASED, each("m"), each(DEVICE), [], [], each(1)),
            *([LEASE], ["fcm"], [SET], [NOW], LATER, sorted(CLAIMED), [SET], ["[]"]),
        ),
        {BY_ID},
        BATCH,
    ),
    "settle_unsent": Pinned(
        settle.SETTLE_UNSENT,
        (
            *(LEASED, each(LEASE), each("gone"), each(None), each(1), each(None)),
            *(each("fcm"), each("gone"), each("X"), each("d"), each("gone: X"), each(NOW)),
            *(each(DEVICE), each(None), each(None), each(False), each(None), each(None)),
            *(each(False), LATER, sorted(CLAIMED)),
        ),
        {BY_ID},
        BATCH,
    ),
    "find_followed": Pinned(
        successors.FIND,
        (LEASED, each(LEASE), each(DEVICE), each(NOW)),
        {BY_ID, BY_NOTIFICATION, CARRYING},
        BATCH,
    ),
    "reassign": Pinned(
        successors.REASSIGN, (LEASED, sorted(WAITING), LATER), {BY_ID, BY_NOTIFICATION, CARRYING}, BATCH
    ),
    "owners": Pinned(successors.OWNERS, (LEASED,), {BY_ID}, BATCH),
    "supersede": Pinned(
        failover.SUPERSEDE, ([NEWEST], LATER, sorted(WAITING)), {BY_ID, BY_NOTIFICATION}, 1_001
    ),
    "supersede late": Pinned(
        failover.SUPERSEDE_LATE, (LEASED, LATER, sorted(WAITING)), {BY_ID, BY_NOTIFICATION}, BATCH
    ),
    "collapse_older": Pinned(failover.COLLAPSE_OLDER, ([NEWEST], LATER), {BY_ID, COLLAPSIBLE}, 1_001),
    "expire due": Pinned(
        expiry.EXPIRE_DUE,
        ("fcm", LATER, claim.START.due_at, claim.START.id, BATCH, sorted(WAITING)),
        {DUE, BY_ID, CARRYING},
        2 * BATCH,
    ),
    "expire held": Pinned(
        expiry.EXPIRE_HELD,
        ("webpush", LATER, claim.START.due_at, claim.START.id, BATCH, sorted(WAITING)),
        {DUE, BY_ID, CARRYING},
        2 * BATCH,
    ),
    "find_overdue": Pinned(
        overdue.OVERDUE, (["fcm", "expo", "webhook"], LATER, LATER, BATCH), {DUE}, 2 * BATCH
    ),
    "count_due": Pinned(
        provider_health.COUNT_DUE, (["fcm", "expo", "webhook"], LATER, BATCH), {DUE, HELD}, 3 * BATCH
    ),
    "count_in_flight": Pinned(
        provider_health.COUNT_IN_FLIGHT, (["fcm", "expo", "webhook"], LATER, BATCH), {DUE}, 3 * BATCH
    ),
    "join a digest": Pinned(
        digests.JOIN,
        (
            *([LEASED[0]], ["digest0"], ["t"], [1], ["push"], ["ada"], [None], ["fcm"], [LATER]),
            *([uuid7()], [uuid7()], LATER),
        ),
        {BY_ID},
        1,
    ),
    "close digests": Pinned(digests.CLOSE, ([DIGEST],), set(), 0),
    "update members": Pinned(
        digests.UPDATE_MEMBERS, ([DIGEST], LATER, digests.MEMBER), {OF_DIGEST, BY_ID, COLLAPSIBLE}, 4 * 21
    ),
    "read members": Pinned(digests.MEMBERS, ([DIGEST], BATCH), {OF_DIGEST}, 21),
    "end digests": Pinned(digests.END, ([DIGEST],), {CARRYING}, 1),
    "end members": Pinned(digests.END_MEMBERS, ([DIGEST], LATER, digests.MEMBER), {CARRYING, OF_DIGEST}, 22),
    "carriers of digests": Pinned(digests.CARRIERS_OF, ([DIGEST], sorted(WAITING)), {CARRYING}, 1),
    "newest members": Pinned(
        digests.NEWEST_MEMBERS, (DIGEST, digests.MEMBER, None, BATCH, BATCH, None), {OF_DIGEST}, 21
    ),
    "newest members of an organisation": Pinned(
        digests.NEWEST_MEMBERS, (DIGEST, digests.MEMBER, None, BATCH, BATCH, "acme"), {OF_DIGEST}, 21
    ),
    "open_due_at": Pinned(digests.OPEN_DUE_AT, ("digest0",), {CARRYING}, 1),
}


async def add_backlog(connection: Connection) -> None:
    await add_device(connection, id=DEVICE)
    await add_waiting(connection, BACKLOG)
    await add_waiting(connection, BACKLOG, lane="apns")
    await add_waiting(connection, BACKLOG, state="sent")
    await add_waiting(connection, 60, lane="expo")
    await add_waiting(connection, 5_000, lane="webpush", state="scheduled", due_at=NEVER, held_by="type:x")
    await add_waiting(connection, 5_000, lane="fanout", state="scheduled", due_at=NEVER)
    await connection.execute(
        "update deliveries set unknown_type = 'x@1' where due_at = 'infinity' and held_by is null"
    )
    for host in "ab":
        await add_waiting(
            connection, 500, lane="webhook", due_at=NEVER, held_by=f"host:webhook/{host}.example"
        )
    for number in range(50):
        await add_waiting(
            connection, 100, lane="fanout", due_at=NEVER, held_by="order", ordering_key=f"group{number}"
        )
    await add_waiting(connection, 500, lane="fanout", due_at=NEVER, held_by="type:y", collapse_key="slot")
    await _add_leased(connection)
    await _add_digests(connection)


async def _add_leased(connection: Connection) -> None:
    notification_id = await add_notification(connection)
    await connection.executemany(
        """
        insert into deliveries (
            id, notification_id, channel, lane, user_id, state, due_at, created_at, lease, leased_until,
            collapse_key, accept_order
        )
        values ($1, $2, 'push', 'leased', 'ada', 'pending', $3, $3, $4, $5, $6, 1000)
        """,
        [
            (delivery_id, notification_id, NOW, LEASE, NOW + timedelta(days=1), collapse_key)
            for delivery_id, collapse_key in [*((leased, None) for leased in LEASED), (NEWEST, "slot")]
        ],
    )


async def _add_digests(connection: Connection) -> None:
    """Add many digests, each with a carrier and members; one member belongs to a notification of its own."""
    digest_ids: list[UUID] = [DIGEST, *(uuid7() for _ in range(199))]
    for number, digest_id in enumerate(digest_ids):
        await add_digest(connection, id=digest_id, key=f"digest{number}")
    await connection.execute(
        """
        insert into deliveries (id, digest_id, channel, lane, user_id, state, due_at, created_at)
        select gen_random_uuid(), digest_id, 'push', 'expo', 'ada', 'sent', $2, $2
        from unnest($1::uuid[]) as given (digest_id)
        """,
        digest_ids,
        NOW,
    )
    await add_notification(connection, id=NOTIFICATION)
    notification_id = await add_notification(connection)
    await connection.execute(
        """
        insert into deliveries (
            id, notification_id, digest_id, channel, lane, user_id, state, due_at, created_at, held_by,
            collapse_key, accept_order
        )
        select
            gen_random_uuid(), case when number = 1 and digest_id = $1 then $2::uuid else $3 end, digest_id,
            'push', 'expo', 'ada', 'scheduled', 'infinity', $4, 'digest', 'in ' || digest_id, number
        from unnest($5::uuid[]) as given (digest_id)
        cross join generate_series(1, 20) as number
        """,
        DIGEST,
        NOTIFICATION,
        notification_id,
        NOW,
        digest_ids,
    )


ANALYZED_EMPTY = "planned anew, on tables analyzed as empty"
EMPTY = ("planned on empty tables", ANALYZED_EMPTY)


@pytest.fixture(scope="module", params=[*EMPTY, "not analyzed", "analyzed"])
async def planned(
    request: pytest.FixtureRequest, server_url: str, template_database: str
) -> AsyncIterator[Connection]:
    """Open a worker's connection to a database with a backlog, with a plan kept for every statement."""
    async with (
        fresh_database(server_url, template_database) as url,
        worker_connection(url) as connection,
        worker_connection(url) as other,
    ):
        if request.param not in EMPTY:
            await add_backlog(other)
        if request.param in {"analyzed", ANALYZED_EMPTY}:
            await other.execute("analyze")
        for name, pinned in PINNED.items():
            await keep_plan(connection, name, pinned.statement, *pinned.arguments)
        if request.param in EMPTY:
            await add_backlog(other)
        if request.param == ANALYZED_EMPTY:
            # As the pool does with plans that are old.
            await connection.execute("discard plans")
        yield connection


async def explain(connection: Connection, name: str) -> list[Node]:
    """Execute a statement by its kept plan and roll it back."""
    executing = connection.transaction()
    await executing.start()
    try:
        return await explain_kept(connection, name, *PINNED[name].arguments)
    finally:
        await executing.rollback()


@pytest.mark.parametrize("name", PINNED)
async def test_a_statement_reads_no_more_than_it_works_on(planned: Connection, name: str) -> None:
    pinned = PINNED[name]

    plan = await explain(planned, name)

    assert not [node["Relation Name"] for node in plan if node["Node Type"] == "Seq Scan"]
    assert {SAME.get(index, index) for index in indexes(plan)} == pinned.indexes
    assert rows_read(plan) <= pinned.rows
    # No batch is compared with another row by row.
    assert sum(node.get("Rows Removed by Join Filter", 0) for node in plan) <= BATCH
    assert all(node["Actual Rows"] <= max(pinned.rows, BATCH) for node in plan if "Sort" in node["Node Type"])


@pytest.mark.parametrize("name", ["claim", "claim from a backlog"])
async def test_a_claim_reads_the_head_of_its_lane_and_nothing_else(planned: Connection, name: str) -> None:
    plan = await explain(planned, name)

    (due,) = [node for node in scans(plan) if node["Index Name"] == DUE]
    assert (due["Node Type"], due["Actual Rows"]) == ("Index Scan", BATCH)
    assert "lane =" in due["Index Cond"]
    assert "due_at <=" in due["Index Cond"]
    assert rows_read(plan, "devices") <= BATCH
    # A batch may be sorted at the end; the backlog never.
    assert all(node["Actual Rows"] <= BATCH for node in plan if "Sort" in node["Node Type"])
