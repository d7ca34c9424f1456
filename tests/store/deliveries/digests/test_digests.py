import asyncio
from datetime import timedelta

import msgspec
import pytest

from tests.rows import NEVER, NOW, add_carrier, add_delivery, add_digest, delivery, take
from tests.store.deliveries.digests.rows import (
    KEY,
    LATER,
    add_joining,
    add_member,
    close_one,
    end_one,
    join_all,
    state_of,
    states,
)
from tests.store.locks import waits_for_a_lock
from tests.waiting import found
from tocsin.domain.digest import MOST_ITEMS
from tocsin.store.deliveries.digests import Members, close, join, open_due_at
from tocsin.store.pool import Pool

SECOND = timedelta(seconds=1)


def numbers(members: Members | None) -> list[int]:
    assert members is not None
    return [msgspec.json.decode(member.payload)["number"] for member in members.newest]


async def test_the_first_member_opens_the_digest_of_its_key_with_one_carrier(pool: Pool) -> None:
    first = await add_joining(pool, lane="fcm", address="a@example.com")

    await join_all(pool, [first])

    digest = dict(await pool.fetchrow("select * from digests"))
    assert digest == {
        "id": first.digest_id,
        "key": KEY,
        "type": "new_customer",
        "version": 2,
        "state": "open",
        "opened_at": NOW,
    }
    carrier = await delivery(pool, first.carrier_id)
    assert (carrier["notification_id"], carrier["digest_id"]) == (None, first.digest_id)
    assert (carrier["channel"], carrier["user_id"], carrier["address"]) == ("push", "ada", "a@example.com")
    assert (carrier["lane"], carrier["state"], carrier["due_at"]) == ("fcm", "scheduled", LATER)
    assert (carrier["held_by"], carrier["created_at"]) == (None, NOW)
    member = await delivery(pool, first.delivery_id)
    assert (member["digest_id"], member["held_by"], member["due_at"]) == (first.digest_id, "digest", NEVER)
    assert [each.id for each in await take(pool, now=LATER)] == [first.carrier_id]


async def test_later_members_join_the_open_digest_of_their_key(pool: Pool) -> None:
    first = await add_joining(pool)
    await join_all(pool, [first])
    # In one batch, in any order, with another key among them.
    batch = [await add_joining(pool, key) for key in (KEY, "other", KEY, "other")]
    await join_all(pool, batch[::-1])

    joined = {each.delivery_id: (await delivery(pool, each.delivery_id))["digest_id"] for each in batch}

    assert {joined[each.delivery_id] for each in batch if each.key == KEY} == {first.digest_id}
    assert {joined[each.delivery_id] for each in batch if each.key == "other"} == {batch[1].digest_id}
    assert await pool.fetchval("select count(*) from digests") == 2
    assert await pool.fetchval("select count(*) from deliveries where notification_id is null") == 2


@pytest.mark.parametrize("state", ["closed", "ended"])
async def test_a_digest_that_was_sent_takes_no_members(pool: Pool, state: str) -> None:
    first = await add_joining(pool)
    await join_all(pool, [first])
    await pool.execute("update digests set state = $1", state)
    second, third = await add_joining(pool), await add_joining(pool)

    await join_all(pool, [second])
    await join_all(pool, [third])

    assert (await delivery(pool, first.delivery_id))["digest_id"] == first.digest_id
    for each in (second, third):
        assert (await delivery(pool, each.delivery_id))["digest_id"] == second.digest_id
    assert await pool.fetchval("select count(*) from deliveries where notification_id is null") == 2


async def test_members_that_join_at_once_make_one_digest(pool: Pool) -> None:
    one, other = await add_joining(pool), await add_joining(pool)
    async with pool.acquire() as first, first.transaction():
        await join(first, [one], NOW)
        joining = asyncio.create_task(join_all(pool, [other]))
        await found(lambda: waits_for_a_lock(pool))
    await joining

    assert await pool.fetchval("select array_agg(id) from digests") == [one.digest_id]
    assert (await delivery(pool, other.delivery_id))["digest_id"] == one.digest_id
    carriers = await pool.fetch("select id from deliveries where notification_id is null")
    assert [row["id"] for row in carriers] == [one.carrier_id]


async def test_batches_that_join_crosswise_do_not_lock_each_other_out(pool: Pool) -> None:
    keys = [f"key{number}" for number in range(10)]
    batches = []
    for worker in range(6):
        order = keys if worker % 2 else keys[::-1]
        batches.append([await add_joining(pool, key) for key in order])

    await asyncio.gather(*(join_all(pool, batch) for batch in batches))

    assert await pool.fetchval("select count(*) from digests") == 10
    assert await pool.fetchval("select count(*) from deliveries where notification_id is null") == 10
    counts = await pool.fetch(
        "select count(*) from deliveries where notification_id is not null group by digest_id"
    )
    assert [row["count"] for row in counts] == [6] * 10


async def test_a_member_joins_either_before_the_digest_closes_or_the_next_one(pool: Pool) -> None:
    first, second = await add_joining(pool), await add_joining(pool)
    await join_all(pool, [first])
    async with pool.acquire() as connection, connection.transaction():
        members = await close(connection, [first.digest_id], NOW)
        joining = asyncio.create_task(join_all(pool, [second]))
        await found(lambda: waits_for_a_lock(pool))
    await joining

    assert members[first.digest_id].count == 1
    assert (await delivery(pool, second.delivery_id))["digest_id"] == second.digest_id
    assert await state_of(pool, second.digest_id) == "open"


async def test_a_member_that_joins_while_the_digest_is_about_to_close_is_sent_with_it(pool: Pool) -> None:
    first, second = await add_joining(pool), await add_joining(pool)
    await join_all(pool, [first])
    async with pool.acquire() as connection, connection.transaction():
        await join(connection, [second], NOW)
        closing = asyncio.create_task(close_one(pool, first.digest_id))
        await found(lambda: waits_for_a_lock(pool))
    members = await closing

    assert members is not None
    assert members.count == 2


async def test_the_members_of_a_closed_digest_are_read_oldest_first(pool: Pool) -> None:
    digest_id = await add_digest(pool)
    await add_carrier(pool, digest_id)
    made = [await add_member(pool, digest_id, number, version=number) for number in (1, 2, 3)]
    await add_member(pool, await add_digest(pool, key="other"), 9)

    members = await close_one(pool, digest_id)

    assert members is not None
    assert (numbers(members), members.count) == ([1, 2, 3], 3)
    assert [each.version for each in members.newest] == [1, 2, 3]
    assert [each.notification_id for each in members.newest] == [
        (await delivery(pool, each))["notification_id"] for each in made
    ]
    assert await state_of(pool, digest_id) == "closed"
    rows = [await delivery(pool, each) for each in made]
    assert {(row["state"], row["held_by"], row["due_at"]) for row in rows} == {("pending", "digest", NEVER)}


async def test_only_the_newest_members_are_read_of_a_large_digest(pool: Pool) -> None:
    digest_id = await add_digest(pool)
    for number in range(MOST_ITEMS + 3):
        await add_member(pool, digest_id, number)

    members = await close_one(pool, digest_id)

    assert members is not None
    assert (numbers(members), members.count) == (list(range(3, MOST_ITEMS + 3)), MOST_ITEMS + 3)


async def test_members_that_were_cancelled_or_expired_leave_the_digest(pool: Pool) -> None:
    digest_id = await add_digest(pool)
    cancelled = await add_member(pool, digest_id, 1, cancelled_at=NOW)
    expired = await add_member(pool, digest_id, 2, expires_at=NOW)
    kept = await add_member(pool, digest_id, 3, expires_at=NOW + SECOND)

    assert numbers(await close_one(pool, digest_id)) == [3]
    assert await states(pool, cancelled, expired, kept) == [
        ("cancelled", None),
        ("expired", None),
        ("pending", None),
    ]
    for each in (cancelled, expired):
        row = await delivery(pool, each)
        assert (row["settled_at"], row["held_by"]) == (NOW, None)
    # Once more before the next attempt.
    await pool.execute("update notifications set cancelled_at = $1", NOW)
    assert await close_one(pool, digest_id) is None
    assert await states(pool, expired, kept) == [("expired", None), ("cancelled", None)]


async def test_members_collapse_into_the_newest_of_their_key_that_can_be_sent(pool: Pool) -> None:
    digest_id = await add_digest(pool)
    made = [
        await add_member(pool, digest_id, number, collapse_key=key, accept_order=number, **changes)
        for number, (key, changes) in enumerate(
            [
                ("a", {}),
                ("a", {}),
                ("a", {"cancelled_at": NOW}),
                ("a", {"expires_at": NOW}),
                ("b", {}),
                (None, {}),
                (None, {}),
            ]
        )
    ]
    await add_delivery(pool, collapse_key="b", accept_order=100)

    assert numbers(await close_one(pool, digest_id)) == [1, 4, 5, 6]
    assert await states(pool, *made[:4]) == [
        ("skipped", "collapsed"),
        ("pending", None),
        ("cancelled", None),
        ("expired", None),
    ]


async def test_a_digest_that_was_sent_to_one_device_tells_the_next_of_the_same(pool: Pool) -> None:
    digest_id = await add_digest(pool)
    await add_carrier(pool, digest_id, state="sent")
    await add_carrier(pool, digest_id)
    for number in (1, 2):
        await add_member(pool, digest_id, number)
    await close_one(pool, digest_id)
    await end_one(pool, digest_id)

    assert await state_of(pool, digest_id) == "ended"
    assert numbers(await close_one(pool, digest_id)) == [1, 2]
    assert await state_of(pool, digest_id) == "ended"


async def test_when_the_open_digest_of_a_key_is_due_can_be_asked(pool: Pool) -> None:
    async with pool.acquire() as connection:
        assert await open_due_at(connection, KEY) is None
        digest_id = await add_digest(pool)
        await add_carrier(pool, digest_id, due_at=LATER)
        await add_member(pool, digest_id)
        assert await open_due_at(connection, KEY) == LATER
        assert await open_due_at(connection, "other") is None
        await close_one(pool, digest_id)
        assert await open_due_at(connection, KEY) is None
