from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec
import pytest

from tests.rows import (
    NOW,
    add_carrier,
    add_delivery,
    add_digest,
    add_held,
    add_notification,
    delivery,
    take,
)
from tocsin.domain.delivery.states import WAITING, State
from tocsin.store.deliveries.claim import START, Position
from tocsin.store.deliveries.expiry import Walked, expire
from tocsin.store.pool import Pool

SECOND = timedelta(seconds=1)
HOUR = timedelta(hours=1)
HELD = ["order", "digest", "type:new_customer", "host:webhook/a.example"]


async def sweep(
    pool: Pool,
    *,
    held: bool = False,
    now: datetime = NOW,
    after: Position = START,
    limit: int = 100,
    lane: str = "fcm",
) -> Walked:
    async with pool.acquire() as connection:
        return await expire(connection, lane, now, held=held, after=after, limit=limit)


async def add_expiring(
    pool: Pool, expires_at: datetime | None = NOW, held_by: str | None = None, **changes: Any
) -> UUID:
    wall = {"send_at_local": changes.pop("send_at_local", None)}
    notification_id = await add_notification(pool, expires_at=expires_at, **wall)
    if held_by is None:
        return await add_delivery(pool, notification_id=notification_id, **changes)
    return await add_held(pool, held_by, notification_id=notification_id, **changes)


async def states(pool: Pool, *deliveries: UUID) -> list[str]:
    return [(await delivery(pool, each))["state"] for each in deliveries]


@pytest.mark.parametrize("state", sorted(State))
async def test_what_waits_past_its_time_to_live_expires(pool: Pool, state: State) -> None:
    made = await add_expiring(pool, state=state, reason="r")
    before = await delivery(pool, made)

    walked = await sweep(pool)

    row = await delivery(pool, made)
    if state not in WAITING:
        assert (walked, row) == (Walked(0, None), before)
        return
    assert walked == Walked(1, None)
    assert (row["state"], row["settled_at"], row["held_by"]) == ("expired", NOW, None)
    (step,) = msgspec.json.decode(row["decisions"])
    assert (step["rule"], step["result"]) == ("time_to_live", "skip")
    assert await sweep(pool) == Walked(0, None)


async def test_only_what_is_past_its_time_to_live_expires(pool: Pool) -> None:
    kept = [await add_expiring(pool, NOW + SECOND), await add_expiring(pool, None)]
    expired = await add_expiring(pool, NOW - SECOND)

    assert await sweep(pool) == Walked(1, None)
    assert await states(pool, expired, *kept) == ["expired", "pending", "pending"]


async def test_only_the_lane_that_is_swept_is_touched(pool: Pool) -> None:
    other, own = await add_expiring(pool, lane="apns"), await add_expiring(pool)
    held = await add_expiring(pool, held_by="order")
    not_due = await add_expiring(pool, due_at=NOW + SECOND)

    assert await sweep(pool) == Walked(1, None)
    assert await states(pool, own, other, held, not_due) == ["expired", "pending", "scheduled", "pending"]


@pytest.mark.parametrize("held_by", HELD)
async def test_what_is_held_past_its_time_to_live_expires(pool: Pool, held_by: str) -> None:
    made = await add_expiring(pool, held_by=held_by)
    kept = await add_expiring(pool, NOW + SECOND, held_by=held_by)
    due, other = await add_expiring(pool), await add_expiring(pool, held_by=held_by, lane="apns")

    assert await sweep(pool, held=True) == Walked(1, None)

    assert await states(pool, made, kept, due, other) == ["expired", "scheduled", "pending", "scheduled"]
    assert (await delivery(pool, made))["held_by"] is None


@pytest.mark.parametrize("held_by", [None, "order"])
async def test_a_wall_time_may_come_26_hours_later_than_the_earliest(pool: Pool, held_by: str | None) -> None:
    wall = datetime(2026, 3, 1, 9)  # noqa: DTZ001 - a wall time has no zone
    made = await add_expiring(pool, NOW, held_by, send_at_local=wall)
    is_held = held_by is not None

    assert await sweep(pool, held=is_held, now=NOW + 26 * HOUR - SECOND) == Walked(0, None)
    assert await sweep(pool, held=is_held, now=NOW + 26 * HOUR) == Walked(1, None)
    assert await states(pool, made) == ["expired"]


async def test_what_is_being_sent_is_left_alone(pool: Pool) -> None:
    made = await add_expiring(pool)
    await take(pool, until=NOW + SECOND)

    assert await sweep(pool) == Walked(0, None)
    assert await states(pool, made) == ["pending"]
    assert await sweep(pool, now=NOW + SECOND) == Walked(1, None)


async def test_a_member_of_a_digest_that_is_being_sent_is_left_alone(pool: Pool) -> None:
    digest_id = await add_digest(pool)
    await add_carrier(pool, digest_id, lane="apns")
    made = await add_expiring(pool, held_by="digest", digest_id=digest_id)
    assert len(await take(pool, lane="apns", until=NOW + SECOND)) == 1

    assert await sweep(pool, held=True) == Walked(0, None)
    assert await states(pool, made) == ["scheduled"]
    assert await sweep(pool, held=True, now=NOW + SECOND) == Walked(1, None)


async def test_a_digest_itself_has_no_time_to_live(pool: Pool) -> None:
    carrier = await add_carrier(pool, await add_digest(pool))

    assert await sweep(pool, now=NOW + 1_000 * HOUR) == Walked(0, None)
    assert await states(pool, carrier) == ["scheduled"]


@pytest.mark.parametrize("held_by", [None, "order"])
async def test_a_lane_is_walked_a_stretch_at_a_time(pool: Pool, held_by: str | None) -> None:
    is_held = held_by is not None
    made = [
        await add_expiring(pool, NOW if number in {0, 3, 4} else None, held_by, state="retrying")
        for number in range(5)
    ]

    first = await sweep(pool, held=is_held, limit=2)
    assert first.next is not None
    assert (first.expired, first.next.id) == (1, made[1])
    second = await sweep(pool, held=is_held, after=first.next, limit=2)
    assert second.next is not None
    assert (second.expired, second.next.id) == (1, made[3])
    assert await sweep(pool, held=is_held, after=second.next, limit=2) == Walked(1, None)
    assert await states(pool, *made) == ["expired", "retrying", "retrying", "expired", "expired"]


async def test_the_walk_is_in_the_order_of_due_times(pool: Pool) -> None:
    late, early = [await add_expiring(pool, due_at=NOW - number * SECOND) for number in (1, 2)]

    first = await sweep(pool, limit=1)

    assert first == Walked(1, Position(NOW - 2 * SECOND, early))
    assert await states(pool, early, late) == ["expired", "pending"]
