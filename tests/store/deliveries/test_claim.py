from datetime import timedelta
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from tests.rows import (
    NOW,
    add_delivery,
    add_device,
    add_held,
    add_waiting,
    delivery,
    insert,
    take,
    take_lost,
)
from tests.store.plans import worker_connection
from tocsin.domain.ids import new_lease_id
from tocsin.store.deliveries.claim import START, Position, any_due
from tocsin.store.deliveries.holds import release
from tocsin.store.pool import Pool

SECOND = timedelta(seconds=1)


async def test_what_is_due_is_taken_in_order(pool: Pool) -> None:
    late = await add_delivery(pool, due_at=NOW)
    early = await add_delivery(pool, due_at=NOW - 2 * SECOND)
    middle = await add_delivery(pool, due_at=NOW - SECOND, state="retrying", attempts=2)

    assert [taken.id for taken in await take(pool)] == [early, middle, late]


async def test_no_more_is_taken_than_asked_for(pool: Pool) -> None:
    made = [await add_delivery(pool) for _ in range(5)]

    assert [taken.id for taken in await take(pool, limit=2)] == made[:2]
    assert [taken.id for taken in await take(pool, limit=2)] == made[2:4]
    assert [taken.id for taken in await take(pool, limit=2)] == made[4:]
    assert await take(pool, limit=2) == []


@pytest.mark.parametrize(
    "changes",
    [
        {"due_at": NOW + SECOND},
        {"due_at": NOW + SECOND, "state": "scheduled"},
        {"lane": "apns"},
        {"lane": "fanout"},
        {"state": "sent"},
        {"state": "dead"},
        {"state": "cancelled"},
        {"state": "skipped", "reason": "no_device"},
        {"lease": UUID(int=1), "leased_until": NOW + SECOND},
    ],
    ids=repr,
)
async def test_what_is_not_due_or_not_free_stays(pool: Pool, changes: dict[str, Any]) -> None:
    await add_delivery(pool, **changes)

    assert await take(pool) == []
    async with pool.acquire() as connection:
        assert not await any_due(connection, "fcm", NOW)


@pytest.mark.parametrize("held_by", ["order", "digest", "type:new_customer", "host:webhook/a.example"])
async def test_what_is_held_is_never_due(pool: Pool, held_by: str) -> None:
    await add_held(pool, held_by)

    assert await take(pool, now=NOW + timedelta(days=100_000)) == []
    async with pool.acquire() as connection:
        assert not await any_due(connection, "fcm", NOW + timedelta(days=100_000))


async def test_each_lane_claims_its_own_deliveries_whatever_their_channel(pool: Pool) -> None:
    made = {lane: await add_delivery(pool, lane=lane) for lane in ("fcm", "apns", "fanout", "smtp")}

    taken = {lane: [each.id for each in await take(pool, lane=lane)] for lane in (*made, "expo")}

    assert taken == {lane: [each] for lane, each in made.items()} | {"expo": []}


@pytest.mark.parametrize("state", ["scheduled", "pending", "retrying"])
async def test_whether_anything_is_due_is_found_out_without_a_claim(pool: Pool, state: str) -> None:
    made = await add_delivery(pool, state=state)
    before = await delivery(pool, made)

    async with pool.acquire() as connection:
        assert await any_due(connection, "fcm", NOW)
        assert not await any_due(connection, "fcm", NOW - SECOND)
        assert not await any_due(connection, "apns", NOW)
        assert await delivery(pool, made) == before
        await take(pool, until=NOW + SECOND)
        assert not await any_due(connection, "fcm", NOW)
        assert await any_due(connection, "fcm", NOW + SECOND)


async def test_a_claim_takes_a_lease_and_spends_no_attempt(pool: Pool) -> None:
    made = await add_delivery(pool)
    lease = new_lease_id()

    (taken,) = await take(pool, lease=lease, until=NOW + 30 * SECOND)

    assert (taken.id, taken.attempts, taken.taken_over) == (made, 0, False)
    row = await delivery(pool, made)
    assert (row["lease"], row["leased_until"]) == (lease, NOW + 30 * SECOND)
    assert (row["state"], row["attempts"]) == ("pending", 0)


async def test_a_lost_lease_spends_an_attempt_only_if_it_was_lost_alone(pool: Pool) -> None:
    made = await add_delivery(pool)
    await take(pool, until=NOW + 30 * SECOND)
    assert await take_lost(pool, now=NOW + 29 * SECOND) is None

    heir = await take_lost(pool, now=NOW + 30 * SECOND, until=NOW + 60 * SECOND)
    again = await take_lost(pool, now=NOW + 60 * SECOND)

    assert heir is not None
    assert (heir.id, heir.taken_over, heir.lost_alone, heir.attempts) == (made, True, False, 0)
    assert again is not None
    assert (again.taken_over, again.lost_alone, again.attempts) == (True, True, 1)


async def test_lost_deliveries_are_taken_over_one_at_a_time_and_never_with_others(pool: Pool) -> None:
    lost = [await add_delivery(pool, due_at=NOW - number * SECOND) for number in (3, 2)]
    await take(pool, until=NOW + SECOND)
    fresh = await add_delivery(pool, due_at=NOW - SECOND)

    assert [taken.id for taken in await take(pool, now=NOW + SECOND)] == [fresh]
    assert [(taken.id if (taken := await take_lost(pool, now=NOW + SECOND)) else None) for _ in range(3)] == [
        *lost,
        None,
    ]


async def test_a_delivery_that_was_lost_and_settled_counts_as_new(pool: Pool) -> None:
    """It survived being dispatched alone: the next loss may be another one's fault again."""
    made = await add_delivery(pool)
    await take(pool, until=NOW + SECOND)
    await take_lost(pool, now=NOW + SECOND)
    await pool.execute("update deliveries set lease = null, leased_until = null")
    await take(pool, now=NOW + 2 * SECOND, until=NOW + 3 * SECOND)

    taken = await take_lost(pool, now=NOW + 3 * SECOND)

    assert taken is not None
    assert (taken.id, taken.attempts) == (made, 0)


async def test_what_was_scheduled_becomes_pending_when_taken(pool: Pool) -> None:
    made = await add_delivery(pool, state="scheduled")
    (taken,) = await take(pool)

    assert not taken.retrying
    assert (await delivery(pool, made))["state"] == "pending"


@pytest.mark.parametrize("attempts", [0, 1])
async def test_what_is_retrying_stays_so_when_taken(pool: Pool, attempts: int) -> None:
    made = await add_delivery(pool, state="retrying", attempts=attempts)
    (taken,) = await take(pool)

    assert taken.retrying
    assert (await delivery(pool, made))["state"] == "retrying"


async def test_a_round_goes_on_behind_its_cursor(pool: Pool) -> None:
    made = [await add_delivery(pool, due_at=NOW - number * SECOND) for number in (3, 2, 2, 1)]
    cursor = Position(NOW - 2 * SECOND, made[1])

    assert [taken.id for taken in await take(pool, after=cursor)] == made[2:]
    assert [taken.id for taken in await take(pool, after=START)] == made[:2]


async def test_two_claims_at_once_never_take_the_same(pool: Pool) -> None:
    made = [await add_delivery(pool) for _ in range(6)]
    async with pool.acquire() as one, pool.acquire() as other, one.transaction():
        first = await take(one, limit=3)
        second = await take(other, limit=10)

    assert [taken.id for taken in first] == made[:3]
    assert [taken.id for taken in second] == made[3:]


async def test_taking_a_lease_touches_no_index_while_the_page_has_room(database_url: str) -> None:
    async with worker_connection(database_url) as connection:
        await add_device(connection)
        await add_waiting(connection, 2_000)

        assert len(await take(connection, now=NOW + SECOND, limit=8)) == 8

        await connection.execute("select pg_stat_force_next_flush()")
        updates = await connection.fetchrow(
            "select n_tup_upd, n_tup_hot_upd from pg_stat_user_tables where relname = 'deliveries'"
        )
    assert tuple(updates) == (8, 8)


async def test_a_claim_leaves_other_statements_waiting_for_the_disk(pool: Pool) -> None:
    await add_delivery(pool)
    async with pool.acquire() as connection:
        await take(connection)

        assert await connection.fetchval("show synchronous_commit") == "on"


async def test_an_unknown_state_is_not_stored(pool: Pool) -> None:
    with pytest.raises(asyncpg.CheckViolationError):
        await add_delivery(pool, state="lost")
    with pytest.raises(asyncpg.CheckViolationError):
        await add_delivery(pool, state="skipped")
    with pytest.raises(asyncpg.CheckViolationError, match="deliveries_of_notification_or_digest"):
        await insert(
            pool,
            "deliveries",
            {"id": new_lease_id(), "channel": "push", "state": "pending", "due_at": NOW, "created_at": NOW},
        )


async def test_what_another_worker_releases_meanwhile_still_comes_first(pool: Pool) -> None:
    """It is released between the claim and the reading of its group, with a due time after the claim."""
    first = await add_held(pool, "order", ordering_key="g", accept_order=1)
    second = await add_delivery(pool, ordering_key="g", accept_order=2)
    async with pool.acquire() as connection:
        await release(connection, "order", NOW + SECOND)

    (taken,) = await take(pool)

    assert taken.id == second
    assert list(taken.order_blockers) == [None]
    assert (await delivery(pool, first))["state"] == "pending"
