from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from tests.rows import NEVER, NOW, add_delivery, add_held, take
from tocsin.domain.ids import uuid7
from tocsin.store.deliveries.holds import held_by, keys_in_order, release, release_next
from tocsin.store.pool import Pool

HOUR = timedelta(hours=1)
PHONE, TABLET = uuid7(), uuid7()


async def free(pool: Pool) -> list[UUID]:
    """List what nothing holds any more, in order."""
    rows = await pool.fetch(
        "select id from deliveries where held_by is null and due_at = $1 order by id", NOW
    )
    return [row["id"] for row in rows]


async def add_in_order(pool: Pool, accept_order: int, **changes: Any) -> UUID:
    """Add a delivery that is held behind an earlier one of its group."""
    row: dict[str, Any] = {"ordering_key": "group", "accept_order": accept_order}
    return await add_held(pool, "order", **row | changes)


async def release_group(pool: Pool, *ordering_keys: str) -> int:
    async with pool.acquire() as connection:
        return await release_next(connection, ordering_keys or ["group"], NOW)


async def test_what_holds_deliveries_is_listed_once(pool: Pool) -> None:
    for holder in ("type:a", "order", "type:a", "host:webhook/a.example", "digest"):
        await add_held(pool, holder)
    await add_delivery(pool)
    await add_delivery(pool, state="cancelled", held_by="type:b")

    async with pool.acquire() as connection:
        assert sorted(await held_by(connection)) == ["digest", "host:webhook/a.example", "order", "type:a"]


async def test_what_is_held_by_others_stays_held(pool: Pool) -> None:
    host = "host:webhook/a.example"
    made = [await add_held(pool, holder) for holder in ("type:a", "type:b", "order", host, f"{host}.org")]

    async with pool.acquire() as connection:
        assert await release(connection, "type:a", NOW) + await release(connection, host, NOW) == 2

    assert await free(pool) == [made[0], made[3]]
    assert [taken.id for taken in await take(pool)] == [made[0], made[3]]


async def test_a_bounded_number_is_released_at_a_time_the_oldest_first(pool: Pool) -> None:
    made = [await add_held(pool, "type:a") for _ in range(5)]

    async with pool.acquire() as connection:
        assert await release(connection, "type:a", NOW, limit=3) == 3
        assert await free(pool) == made[:3]
        assert await release(connection, "type:a", NOW, limit=3) == 2
        assert await release(connection, "type:a", NOW, limit=3) == 0


async def test_what_is_released_is_due_in_its_lane(pool: Pool) -> None:
    made = [
        await add_held(pool, "host:webhook/a.example", state=state, lane="webhook", attempts=attempts)
        for attempts, state in enumerate(("scheduled", "pending", "retrying"))
    ]

    async with pool.acquire() as connection:
        await release(connection, "host:webhook/a.example", NOW)

    rows = await pool.fetch("select state from deliveries where id = any($1) order by id", made)
    assert [row["state"] for row in rows] == ["pending", "pending", "retrying"]
    assert [each.attempts for each in await take(pool, lane="webhook")] == [0, 1, 2]


async def test_the_next_of_each_group_is_released_and_no_other(pool: Pool) -> None:
    second = await add_in_order(pool, 2)
    first = await add_in_order(pool, 1)
    await add_in_order(pool, 3)
    other = await add_in_order(pool, 4, ordering_key="other group")
    await add_in_order(pool, 5, ordering_key="group not asked for")

    assert await release_group(pool, "group", "other group", "no group") == 2
    assert await free(pool) == sorted([first, other])
    # The first is due now and blocks the second.
    assert await release_group(pool) == 0
    await pool.execute("update deliveries set state = 'sent' where id = $1", first)
    assert await release_group(pool) == 1
    assert await free(pool) == sorted([first, second, other])


async def test_the_next_of_every_device_is_released(pool: Pool) -> None:
    first = [await add_in_order(pool, 1, device_id=PHONE), await add_in_order(pool, 2, device_id=TABLET)]
    for accept_order in (2, 3):
        await add_in_order(pool, accept_order, device_id=PHONE)
        await add_in_order(pool, accept_order + 1, device_id=TABLET)

    assert await release_group(pool) == 2
    assert await free(pool) == first


async def test_a_device_that_waits_does_not_keep_another_one_waiting(pool: Pool) -> None:
    row: dict[str, Any] = {"ordering_key": "group", "state": "retrying", "due_at": NOW + HOUR}
    await add_delivery(pool, accept_order=1, device_id=PHONE, **row)
    await add_in_order(pool, 2, device_id=PHONE)
    other = await add_in_order(pool, 2, device_id=TABLET)
    await add_in_order(pool, 3, device_id=TABLET)

    assert await release_group(pool) == 1
    assert await free(pool) == [other]


async def test_one_without_a_device_blocks_every_device_behind_it(pool: Pool) -> None:
    ahead = await add_delivery(pool, ordering_key="group", accept_order=1, due_at=NOW - HOUR)
    behind = [await add_in_order(pool, 2, device_id=device_id) for device_id in (PHONE, TABLET)]
    last = await add_in_order(pool, 3)

    assert await release_group(pool) == 0
    await pool.execute("update deliveries set device_id = $2 where id = $1", ahead, PHONE)
    # One without a device yet is fanned out first; each of its devices waits by itself then.
    assert await release_group(pool) == 2
    assert await free(pool) == [behind[1], last]


async def test_nothing_overtakes_one_that_is_held_without_a_device(pool: Pool) -> None:
    first = await add_in_order(pool, 1)
    await add_in_order(pool, 2, device_id=PHONE)
    await add_in_order(pool, 3)

    assert await release_group(pool) == 1
    assert await free(pool) == [first]


@pytest.mark.parametrize(
    ("ahead", "blocks"),
    [
        ({"state": "retrying", "due_at": NOW + HOUR}, True),
        ({"state": "pending", "lease": UUID(int=1), "leased_until": NOW + HOUR}, True),
        ({"state": "pending"}, True),
        ({"state": "scheduled", "due_at": NOW}, True),
        ({"state": "scheduled", "due_at": NEVER, "held_by": "host:webhook/a.example"}, True),
        ({"state": "scheduled", "due_at": NOW + HOUR}, False),
        ({"state": "scheduled", "due_at": NEVER, "held_by": "type:a"}, False),
        ({"state": "scheduled", "due_at": NEVER, "held_by": "channel:push"}, False),
        ({"state": "scheduled", "due_at": NEVER, "held_by": "provider:fcm"}, False),
        ({"state": "scheduled", "due_at": NEVER, "held_by": "digest"}, False),
        ({"state": "expired"}, False),
        ({"state": "sent"}, False),
        ({"ordering_key": "other group"}, False),
        ({"accept_order": 3}, False),
    ],
    ids=repr,
)
async def test_only_what_is_about_to_be_sent_keeps_the_next_waiting(
    pool: Pool, ahead: dict[str, Any], *, blocks: bool
) -> None:
    row: dict[str, Any] = {"ordering_key": "group", "accept_order": 1, "due_at": NOW - HOUR}
    earlier = await add_delivery(pool, **row | ahead)
    behind = await add_in_order(pool, 2)

    assert await release_group(pool) == (0 if blocks else 1)
    if blocks:
        await pool.execute("update deliveries set state = 'dead', held_by = null where id = $1", earlier)
        assert await release_group(pool) == 1
    assert behind in await free(pool)


async def test_what_another_worker_releases_at_this_moment_is_left_to_it(pool: Pool) -> None:
    made = await add_in_order(pool, 1)
    async with pool.acquire() as one, one.transaction():
        assert await release_next(one, ["group"], NOW) == 1
        assert await release_group(pool) == 0

    assert await free(pool) == [made]


async def test_groups_in_which_something_is_held_are_listed_once_after_a_cursor(pool: Pool) -> None:
    for number, key in enumerate(("a", "a", "b", "c")):
        await add_in_order(pool, number, ordering_key=key)
    await add_held(pool, "type:a", ordering_key="d")
    await add_delivery(pool, ordering_key="e")
    await add_delivery(pool, ordering_key="f", state="cancelled", held_by="order")

    async with pool.acquire() as connection:
        assert await keys_in_order(connection, "") == ["a", "b", "c"]
        assert await keys_in_order(connection, "a") == ["b", "c"]
        assert await keys_in_order(connection, "c") == []
