from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from tests.rows import NEVER, NOW, add_delivery
from tocsin.store.health.overdue import Overdue, find_overdue
from tocsin.store.pool import Pool

SECOND = timedelta(seconds=1)


async def overdue(pool: Pool, *lanes: str, most: int = 100) -> list[Overdue]:
    async with pool.acquire() as connection:
        return await find_overdue(connection, lanes, due_before=NOW, now=NOW + 60 * SECOND, most=most)


async def test_what_was_due_and_is_not_claimed_is_found_by_lane(pool: Pool) -> None:
    made = [await add_delivery(pool, due_at=NOW - number * SECOND) for number in (1, 3, 2)]
    other = await add_delivery(pool, lane="apns", due_at=NOW)
    await add_delivery(pool, lane="expo", due_at=NOW)

    found = await overdue(pool, "fcm", "apns", "smtp")

    assert sorted(found, key=lambda each: each.lane) == [
        Overdue(lane="apns", count=1, oldest=other, due_at=NOW),
        Overdue(lane="fcm", count=3, oldest=made[1], due_at=NOW - 3 * SECOND),
    ]


async def test_no_more_is_counted_than_asked_for_and_the_oldest_first(pool: Pool) -> None:
    made = [await add_delivery(pool, due_at=NOW - number * SECOND) for number in range(4)]

    assert await overdue(pool, "fcm", most=2) == [
        Overdue(lane="fcm", count=2, oldest=made[3], due_at=NOW - 3 * SECOND)
    ]


async def test_what_a_dead_worker_left_is_overdue(pool: Pool) -> None:
    made = await add_delivery(pool, lease=UUID(int=1), leased_until=NOW + 60 * SECOND)

    assert [each.oldest for each in await overdue(pool, "fcm")] == [made]


@pytest.mark.parametrize(
    "changes",
    [
        {"due_at": NOW + SECOND},
        {"due_at": NEVER, "held_by": "order"},
        {"lease": UUID(int=1), "leased_until": NOW + 61 * SECOND},
        {"state": "sent"},
    ],
    ids=["not yet", "held", "being sent", "settled"],
)
async def test_what_is_late_for_a_reason_is_not_overdue(pool: Pool, changes: dict[str, Any]) -> None:
    await add_delivery(pool, **changes)

    assert await overdue(pool, "fcm") == []
