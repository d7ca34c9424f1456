from datetime import datetime, timedelta
from uuid import UUID

import pytest

from tests.rows import NOW, add_delivery, delivery
from tocsin.engine.dispatch.lane import Claimer
from tocsin.store.pool import Pool

SECOND = timedelta(seconds=1)
LEASE = 30 * SECOND


class StillClock:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def still() -> StillClock:
    return StillClock()


@pytest.fixture
def claimer(pool: Pool, still: StillClock) -> Claimer:
    return Claimer(pool, "fcm", LEASE, still)


async def take(claimer: Claimer, limit: int) -> list[UUID]:
    return [attempt.id for attempt in await claimer.claim(limit)]


async def test_a_round_goes_through_what_is_due_in_order(pool: Pool, claimer: Claimer) -> None:
    made = [await add_delivery(pool, due_at=NOW - (9 - number) * SECOND) for number in range(5)]

    assert await take(claimer, 2) == made[:2]
    assert await take(claimer, 2) == made[2:4]
    assert await take(claimer, 2) == made[4:]
    assert await take(claimer, 2) == []


async def test_each_claim_has_a_lease_of_its_own_until_the_same_time_from_now(
    pool: Pool, claimer: Claimer
) -> None:
    await add_delivery(pool)
    await add_delivery(pool)

    (first,), (second,) = await claimer.claim(1), await claimer.claim(1)

    assert first.lease != second.lease
    row = await delivery(pool, first.id)
    assert (row["lease"], row["leased_until"]) == (first.lease, NOW + LEASE)


async def test_what_comes_in_behind_the_cursor_is_found_when_nothing_lies_ahead(
    pool: Pool, claimer: Claimer
) -> None:
    await add_delivery(pool)
    await take(claimer, 1)
    behind = await add_delivery(pool, due_at=NOW - 5 * SECOND)

    assert await take(claimer, 1) == [behind]


async def test_what_comes_in_behind_the_cursor_waits_a_second_at_most(
    pool: Pool, claimer: Claimer, still: StillClock
) -> None:
    made = [await add_delivery(pool, due_at=NOW - (9 - number) * SECOND) for number in range(4)]
    assert await take(claimer, 1) == made[:1]
    behind = await add_delivery(pool, due_at=NOW - 20 * SECOND)

    assert await take(claimer, 1) == made[1:2]
    still.now += SECOND
    assert await take(claimer, 1) == [behind]


async def test_a_claim_that_comes_up_short_starts_the_next_round(pool: Pool, claimer: Claimer) -> None:
    made = await add_delivery(pool)
    assert await take(claimer, 5) == [made]
    behind = await add_delivery(pool, due_at=NOW - 5 * SECOND)
    ahead = await add_delivery(pool)

    assert await take(claimer, 5) == [behind, ahead]


async def test_a_lost_lease_is_found_again(pool: Pool, claimer: Claimer, still: StillClock) -> None:
    made = await add_delivery(pool)
    await take(claimer, 1)
    still.now += LEASE

    assert await take(claimer, 1) == []
    attempt = await claimer.take_over()

    assert attempt is not None
    assert (attempt.id, attempt.delivery.taken_over) == (made, True)


async def test_what_waits_in_another_lane_is_not_claimed(pool: Pool, claimer: Claimer) -> None:
    await add_delivery(pool, lane="apns")

    assert not await claimer.any_due()
    assert await take(claimer, 5) == []


async def test_looking_for_what_is_due_touches_nothing(pool: Pool, claimer: Claimer) -> None:
    made = await add_delivery(pool)
    before = await pool.fetchval("select xmin::text from deliveries where id = $1", made)

    assert await claimer.any_due()
    assert await pool.fetchval("select xmin::text from deliveries where id = $1", made) == before
