from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from tests.rows import (
    NEVER,
    NOW,
    add_carrier,
    add_delivery,
    add_digest,
    add_held,
    add_notification,
    delivery,
    take,
    take_lost,
)
from tocsin.domain.delivery.states import WAITING, State
from tocsin.domain.ids import new_lease_id
from tocsin.domain.plan import due_time
from tocsin.store.deliveries.holds import cancel, reschedule
from tocsin.store.pool import Pool

SECOND = timedelta(seconds=1)
HOUR = timedelta(hours=1)
WALL = datetime(2026, 3, 4, 9)  # noqa: DTZ001 - a wall time has no zone


async def notification_of(pool: Pool, delivery_id: UUID) -> UUID:
    found: UUID = (await delivery(pool, delivery_id))["notification_id"]
    return found


async def add_member(pool: Pool, carriers: int = 1) -> UUID:
    """Add a member of a digest that has several carriers."""
    digest_id = await add_digest(pool)
    for _ in range(carriers):
        await add_carrier(pool, digest_id)
    return await add_held(pool, "digest", digest_id=digest_id)


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

    again = await take_lost(pool, now=NOW + SECOND)
    assert again is not None
    assert again.cancelled


async def test_what_a_dead_worker_left_is_taken_back(pool: Pool) -> None:
    made = await add_delivery(pool)
    await take(pool, until=NOW + SECOND)

    assert await cancel(pool, await notification_of(pool, made), NOW + SECOND) == 1


async def test_a_member_of_a_digest_is_taken_back_and_the_digest_stays(pool: Pool) -> None:
    made = await add_member(pool)

    assert await cancel(pool, await notification_of(pool, made), NOW) == 1

    row = await delivery(pool, made)
    assert (row["state"], row["held_by"]) == ("cancelled", None)
    assert len(await take(pool)) == 1


@pytest.mark.parametrize("change", ["cancelled", "rescheduled"])
async def test_a_member_stays_in_its_digest_while_that_is_being_sent(pool: Pool, change: str) -> None:
    made = await add_member(pool, carriers=2)
    assert len(await take(pool, limit=1, until=NOW + SECOND)) == 1
    before = await delivery(pool, made)
    notification_id = before["notification_id"]

    async def attempt(now: datetime) -> int:
        if change == "cancelled":
            return await cancel(pool, notification_id, now)
        return await reschedule(pool, notification_id, NOW + HOUR, now)

    assert await attempt(NOW) == 0
    assert await delivery(pool, made) == before
    # The worker that sent it is dead, or the attempt has ended.
    assert await attempt(NOW + SECOND) == 1


async def test_a_lease_on_another_digest_keeps_nothing(pool: Pool) -> None:
    made = await add_member(pool, carriers=0)
    await add_carrier(pool, await add_digest(pool, key="another"))
    assert len(await take(pool)) == 1

    assert await cancel(pool, await notification_of(pool, made), NOW) == 1


async def test_what_is_moved_leaves_its_digest(pool: Pool) -> None:
    made = await add_member(pool)

    assert await reschedule(pool, await notification_of(pool, made), NOW + HOUR, NOW) == 1

    row = await delivery(pool, made)
    assert (row["digest_id"], row["held_by"], row["due_at"]) == (None, None, NOW + HOUR)


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
        ({"state": "scheduled", "due_at": NEVER, "held_by": "order"}, 1),
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
