import json
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from tests.databases import SCHEMA
from tests.rows import NOW, add_delivery, add_notification, delivery, take
from tocsin.domain.delivery.states import WAITING, State
from tocsin.domain.ids import new_lease_id
from tocsin.domain.plan import due_time
from tocsin.store.deliveries import holds
from tocsin.store.deliveries.holds import cancel, held_by, keys_in_order, release, release_next, reschedule
from tocsin.store.pool import Pool, PoolSettings, open_pool

SECOND = timedelta(seconds=1)
HOUR = timedelta(hours=1)
WALL = datetime(2026, 3, 4, 9)  # noqa: DTZ001 - a wall time has no zone


async def held(pool: Pool, holder: str, **changes: Any) -> UUID:
    """Add a delivery that something holds without a time."""
    made = await add_delivery(pool, state="scheduled", held_by=holder, **changes)
    await pool.execute("update deliveries set due_at = 'infinity' where id = $1", made)
    return made


async def free(pool: Pool) -> list[UUID]:
    """Name what nothing holds any more, in order."""
    rows = await pool.fetch(
        "select id from deliveries where held_by is null and due_at = $1 order by id", NOW
    )
    return [row["id"] for row in rows]


async def notification_of(pool: Pool, delivery_id: UUID) -> UUID:
    found: UUID = (await delivery(pool, delivery_id))["notification_id"]
    return found


async def test_what_holds_deliveries_is_named_once(pool: Pool) -> None:
    for holder in ("type:a", "order", "type:a", "provider:fcm"):
        await held(pool, holder)
    await add_delivery(pool)
    await add_delivery(pool, state="cancelled", held_by="type:b")

    async with pool.acquire() as connection:
        assert sorted(await held_by(connection)) == ["order", "provider:fcm", "type:a"]


async def test_what_is_held_by_others_stays_held(pool: Pool) -> None:
    made = [await held(pool, holder) for holder in ("type:a", "type:b", "order", "provider:fcm")]

    async with pool.acquire() as connection:
        assert await release(connection, "type:a", NOW) + await release(connection, "provider:fcm", NOW) == 2

    assert await free(pool) == [made[0], made[3]]
    assert [taken.id for taken in await take(pool)] == [made[0], made[3]]


async def test_a_bounded_number_is_let_go_at_a_time_the_oldest_first(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(holds, "MOST_AT_ONCE", 3)
    made = [await held(pool, "type:a") for _ in range(5)]

    async with pool.acquire() as connection:
        assert await release(connection, "type:a", NOW) == 3
        assert await free(pool) == made[:3]
        assert await release(connection, "type:a", NOW) == 2
        assert await release(connection, "type:a", NOW) == 0


@pytest.mark.parametrize("analyzed", [False, True], ids=["fresh", "analyzed"])
async def test_letting_go_looks_at_what_is_held_and_at_nothing_else(
    database_url: str, *, analyzed: bool
) -> None:
    async with (
        open_pool(database_url, SCHEMA, PoolSettings(), lookups_only=True) as pool,
        pool.acquire() as connection,
    ):
        notification_id = await add_notification(connection)
        await connection.execute(
            "insert into deliveries (id, notification_id, channel, state, due_at, created_at)"
            " select uuid7(), $1, 'push', 'sent', $2, $2 from generate_series(1, 20000)",
            notification_id,
            NOW,
        )
        for _ in range(3):
            await add_delivery(connection, state="scheduled", held_by="circuit:fcm")
        if analyzed:
            await connection.execute("analyze")
        await connection.execute("set plan_cache_mode = force_generic_plan")
        await connection.execute(f"prepare letting_go as {holds.RELEASE}")
        lines = await connection.fetch("explain execute letting_go('circuit:fcm', now(), 100)")

    plan = "\n".join(line[0] for line in lines)
    assert "deliveries_held" in plan
    assert "Seq Scan" not in plan
    assert "Index Cond: (held_by = $1)" in plan


async def test_the_next_of_a_row_is_its_oldest_notification_with_all_its_devices(pool: Pool) -> None:
    oldest = await add_notification(pool)
    first = [await held(pool, "order", notification_id=oldest, ordering_key="row") for _ in range(2)]
    await held(pool, "order", ordering_key="row")
    other = await held(pool, "order", ordering_key="other row")
    await held(pool, "order", ordering_key="row not asked for")

    async with pool.acquire() as connection:
        assert await release_next(connection, ["row", "other row", "no row"], NOW) == 3

    assert await free(pool) == [*first, other]


@pytest.mark.parametrize(
    "before",
    [
        {"state": "retrying", "due_at": NOW + HOUR},
        {"state": "pending", "due_at": NOW + HOUR, "lease": UUID(int=1), "leased_until": NOW},
        {"state": "scheduled", "due_at": NOW + HOUR},
        {"state": "scheduled", "due_at": NOW + HOUR, "held_by": "type:a"},
    ],
    ids=["retrying", "under way", "scheduled", "held by another"],
)
async def test_nobody_comes_next_before_the_one_ahead_is_settled(pool: Pool, before: dict[str, Any]) -> None:
    ahead = await add_delivery(pool, ordering_key="row", **before)
    behind = await held(pool, "order", ordering_key="row")

    async with pool.acquire() as connection:
        assert await release_next(connection, ["row"], NOW) == 0
        await pool.execute("update deliveries set state = 'dead' where id = $1", ahead)
        assert await release_next(connection, ["row"], NOW) == 1

    assert await free(pool) == [behind]


async def test_rows_in_which_somebody_waits_are_named_once(pool: Pool) -> None:
    for key in ("a", "a", "b"):
        await held(pool, "order", ordering_key=key)
    await held(pool, "type:a", ordering_key="c")
    await add_delivery(pool, ordering_key="d")

    async with pool.acquire() as connection:
        assert sorted(await keys_in_order(connection, "")) == ["a", "b"]


@pytest.mark.parametrize("analyzed", [False, True], ids=["fresh", "analyzed"])
async def test_letting_the_next_go_reads_one_of_each_row_and_not_all_that_wait(
    database_url: str, *, analyzed: bool
) -> None:
    async with (
        open_pool(database_url, SCHEMA, PoolSettings(), lookups_only=True) as pool,
        pool.acquire() as connection,
    ):
        await connection.execute(
            """
            insert into notifications (
                id, producer, idempotency_key, fingerprint, type, version, audience, payload, accepted_at
            )
            select uuid7(), 'shop', number::text, 'f', 't', 1, '{}', '{}', $1
            from generate_series(1, 5000) as number
            """,
            NOW,
        )
        await connection.execute(
            """
            insert into deliveries (
                id, notification_id, channel, user_id, state, due_at, created_at, ordering_key, held_by
            )
            select
                uuid7(), id, 'push', 'ada', 'scheduled', 'infinity', $1,
                'row' || idempotency_key::integer % 50, 'order'
            from notifications
            """,
            NOW,
        )
        if analyzed:
            await connection.execute("analyze")
        await connection.execute("set plan_cache_mode = force_generic_plan")
        await connection.execute(f"prepare kept as {holds.RELEASE_NEXT}")
        keys = ",".join(f"row{number}" for number in range(20))
        text = await connection.fetchval(
            f"explain (analyze, format json) execute kept('{{{keys}}}', '{NOW.isoformat()}')"
        )

    plan = nodes(json.loads(text)[0]["Plan"])
    scans = [
        node for node in plan if node.get("Relation Name") == "deliveries" and "Scan" in node["Node Type"]
    ]
    assert all("Index" in node["Node Type"] for node in scans)
    assert sum(node["Actual Rows"] * node["Actual Loops"] for node in scans) <= 100


def nodes(plan: dict[str, Any]) -> list[dict[str, Any]]:
    return [plan, *(node for inner in plan.get("Plans", ()) for node in nodes(inner))]


@pytest.mark.parametrize("state", sorted(State))
async def test_only_what_waits_can_be_taken_back(pool: Pool, state: State) -> None:
    made = await add_delivery(pool, state=state, reason="r", held_by="order")
    notification_id = await notification_of(pool, made)

    assert await cancel(pool, notification_id, NOW) == (1 if state in WAITING else 0)

    row = await delivery(pool, made)
    assert row["state"] == ("cancelled" if state in WAITING else state)
    if state in WAITING:
        assert (row["settled_at"], row["held_by"]) == (NOW, None)


async def test_taking_back_leaves_other_notifications_alone(pool: Pool) -> None:
    made, other = await add_delivery(pool), await add_delivery(pool)

    await cancel(pool, await notification_of(pool, made), NOW)

    assert [taken.id for taken in await take(pool)] == [other]


async def test_what_is_under_way_is_not_taken_back_but_not_tried_again(pool: Pool) -> None:
    made = await add_delivery(pool)
    await take(pool, lease=new_lease_id(), until=NOW + SECOND)

    assert await cancel(pool, await notification_of(pool, made), NOW) == 0
    assert (await delivery(pool, made))["state"] == "pending"

    (again,) = await take(pool, now=NOW + SECOND)
    assert again.cancelled


async def test_what_a_dead_worker_left_is_taken_back(pool: Pool) -> None:
    made = await add_delivery(pool)
    await take(pool, until=NOW + SECOND)

    assert await cancel(pool, await notification_of(pool, made), NOW + SECOND) == 1


async def test_taking_back_twice_keeps_the_first_moment(pool: Pool) -> None:
    notification_id = await notification_of(pool, await add_delivery(pool))
    await cancel(pool, notification_id, NOW)

    assert await cancel(pool, notification_id, NOW + SECOND) == 0
    assert await pool.fetchval("select cancelled_at from notifications") == NOW


@pytest.mark.parametrize(
    ("changes", "moved"),
    [
        ({"state": "scheduled", "due_at": NOW + 2 * HOUR}, 1),
        ({"state": "pending"}, 1),
        ({"state": "scheduled", "held_by": "order"}, 1),
        ({"state": "pending", "lease": UUID(int=1), "leased_until": NOW + SECOND}, 0),
        ({"state": "retrying", "attempts": 1}, 0),
        ({"state": "sent"}, 0),
        ({"state": "cancelled"}, 0),
    ],
    ids=repr,
)
async def test_only_what_was_never_tried_can_be_moved(
    pool: Pool, changes: dict[str, Any], moved: int
) -> None:
    made = await add_delivery(pool, **changes)
    before = await delivery(pool, made)

    assert await reschedule(pool, before["notification_id"], NOW + HOUR, NOW) == moved

    row = await delivery(pool, made)
    if moved:
        assert (row["state"], row["due_at"], row["held_by"]) == ("scheduled", NOW + HOUR, None)
        assert await take(pool, now=NOW + HOUR - SECOND) == []
        assert [taken.id for taken in await take(pool, now=NOW + HOUR)] == [made]
    else:
        assert row == before


async def test_the_new_time_takes_the_place_of_every_old_one(pool: Pool) -> None:
    notification_id = await add_notification(pool, send_at_local=WALL)
    await add_delivery(pool, notification_id=notification_id, state="scheduled")

    await reschedule(pool, notification_id, NOW + HOUR, NOW)

    row = await pool.fetchrow("select send_at, send_at_local from notifications")
    assert tuple(row) == (NOW + HOUR, None)


async def test_what_cannot_be_moved_keeps_its_time(pool: Pool) -> None:
    notification_id = await add_notification(pool, send_at=NOW)
    await add_delivery(pool, notification_id=notification_id, state="sent")

    assert await reschedule(pool, notification_id, NOW + HOUR, NOW) == 0
    assert await pool.fetchval("select send_at from notifications") == NOW


@pytest.mark.parametrize(
    ("changes", "starts"),
    [
        ({}, NOW),
        ({"send_at": NOW - HOUR}, NOW),
        ({"send_at": NOW + 3 * HOUR}, NOW + 3 * HOUR),
        ({"send_at_local": WALL}, due_time(None, WALL, NOW)),
        ({"send_at_local": WALL - timedelta(days=9)}, NOW),
    ],
    ids=["at once", "in the past", "ahead", "wall time ahead", "wall time in the past"],
)
async def test_the_time_to_live_begins_anew_at_the_new_time(
    pool: Pool, changes: dict[str, Any], starts: datetime
) -> None:
    notification_id = await add_notification(pool, expires_at=starts + timedelta(minutes=5), **changes)
    await add_delivery(pool, notification_id=notification_id, state="scheduled")

    await reschedule(pool, notification_id, NOW + timedelta(days=2), NOW)

    expires_at = await pool.fetchval("select expires_at from notifications")
    assert expires_at == NOW + timedelta(days=2, minutes=5)
