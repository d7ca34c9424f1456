import asyncio
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from tests.rows import (
    NEVER,
    NOW,
    add_carrier,
    add_delivery,
    add_device,
    add_digest,
    add_held,
    delivery,
    take,
    take_lost,
)
from tests.store.locks import waits_for_a_lock
from tests.waiting import found
from tocsin.domain.ids import LeaseId, new_delivery_id, new_lease_id
from tocsin.store.deliveries.fan_out import (
    Placement,
    fan_out,
    leave_lane,
    mark_reserved,
    move,
    waiting_lanes,
)
from tocsin.store.pool import Pool

SECOND = timedelta(seconds=1)


async def claimed(pool: Pool, devices: int, **changes: Any) -> tuple[UUID, LeaseId, list[UUID]]:
    """Return a claimed delivery, its lease and the devices it can go to."""
    there = [await add_device(pool) for _ in range(devices)]
    made = await add_delivery(pool, **changes)
    lease = new_lease_id()
    assert [taken.id for taken in await take(pool, lease=lease, until=NOW + SECOND)] == [made]
    return made, lease, there


def placement(delivery_id: UUID, device_id: UUID, *, first: bool = False, **changes: Any) -> Placement:
    row: dict[str, Any] = {
        "delivery_id": delivery_id,
        "sibling_id": None if first else new_delivery_id(),
        "device_id": device_id,
        "lane": "fcm",
        "leased": True,
        "in_order": False,
    }
    return Placement(**row | changes)


def to_all(delivery_id: UUID, devices: list[UUID]) -> list[Placement]:
    return [placement(delivery_id, each, first=number == 0) for number, each in enumerate(devices)]


async def test_each_device_has_a_delivery_under_the_same_lease(pool: Pool) -> None:
    made, lease, devices = await claimed(pool, 3, ordering_key="group", collapse_key="slot", accept_order=7)
    wanted = to_all(made, devices)

    siblings = await fan_out(pool, wanted, lease, NOW)

    assert siblings == {each.sibling_id for each in wanted[1:]}
    original = await delivery(pool, made)
    assert (original["device_id"], original["reserved"]) == (devices[0], True)
    rows = [await delivery(pool, sibling) for sibling in siblings]
    assert {row["device_id"] for row in rows} == set(devices[1:])
    same = ("notification_id", "channel", "user_id", "lane", "state", "due_at", "lease", "leased_until")
    for row in rows:
        assert {name: row[name] for name in same} == {name: original[name] for name in same}
        assert (row["ordering_key"], row["collapse_key"], row["accept_order"]) == ("group", "slot", 7)
        # The person was told of the notification once, by however many devices.
        assert (row["attempts"], row["reserved"]) == (0, True)


async def test_devices_of_other_providers_wait_in_their_own_lanes(pool: Pool) -> None:
    made, lease, devices = await claimed(pool, 1)
    apple = await add_device(pool, provider="apns")
    wanted = [
        placement(made, devices[0], first=True),
        placement(made, apple, lane="apns", leased=False),
    ]

    (sibling,) = await fan_out(pool, wanted, lease, NOW)

    own, other = await delivery(pool, made), await delivery(pool, sibling)
    assert (own["lane"], own["lease"], own["leased_until"]) == ("fcm", lease, NOW + SECOND)
    assert (other["lane"], other["lease"], other["leased_until"]) == ("apns", None, None)
    assert (other["state"], other["due_at"], other["held_by"]) == ("pending", NOW, None)
    assert await take(pool) == []
    (taken,) = await take(pool, lane="apns")
    assert (taken.id, [each.id for each in taken.profile.devices]) == (sibling, [apple])
    assert not taken.taken_over


async def test_the_row_itself_may_leave_the_lane_too(pool: Pool) -> None:
    made, lease, devices = await claimed(pool, 2)
    wanted = [
        placement(made, devices[0], first=True, lane="apns", leased=False),
        placement(made, devices[1], lane="webpush", leased=False),
    ]

    (sibling,) = await fan_out(pool, wanted, lease, NOW)

    assert await take(pool) == []
    assert [each.id for each in await take(pool, lane="apns")] == [made]
    assert [each.id for each in await take(pool, lane="webpush")] == [sibling]


@pytest.mark.parametrize("first", [True, False], ids=["the row itself", "its sibling"])
async def test_a_device_that_an_earlier_one_waits_for_is_held_in_order(pool: Pool, *, first: bool) -> None:
    made, lease, devices = await claimed(pool, 2, ordering_key="group", accept_order=2)
    behind: dict[str, Any] = {"in_order": True, "leased": False}
    wanted = [
        placement(made, devices[0], first=True, **behind if first else {}),
        placement(made, devices[1], **{} if first else behind),
    ]

    (sibling,) = await fan_out(pool, wanted, lease, NOW)

    held, free = (made, sibling) if first else (sibling, made)
    row = await delivery(pool, held)
    assert (row["held_by"], row["due_at"], row["lease"]) == ("order", NEVER, None)
    assert row["ordering_key"] == "group"
    row = await delivery(pool, free)
    assert (row["held_by"], row["due_at"], row["lease"]) == (None, NOW, lease)


async def test_the_carriers_of_a_digest_fan_out_like_any_delivery(pool: Pool) -> None:
    devices = [await add_device(pool) for _ in range(2)]
    digest_id = await add_digest(pool)
    carrier = await add_carrier(pool, digest_id)
    lease = new_lease_id()
    await take(pool, lease=lease)

    (sibling,) = await fan_out(pool, to_all(carrier, devices), lease, NOW)

    row = await delivery(pool, sibling)
    assert (row["notification_id"], row["digest_id"], row["device_id"]) == (None, digest_id, devices[1])


async def test_several_pushes_fan_out_at_once(pool: Pool) -> None:
    devices = [await add_device(pool) for _ in range(2)]
    made = [await add_delivery(pool) for _ in range(3)]
    lease = new_lease_id()
    await take(pool, lease=lease)
    wanted = [each for one in made for each in to_all(one, devices)]

    assert len(await fan_out(pool, wanted, lease, NOW)) == 3


async def test_who_takes_over_after_a_crash_does_not_fan_out_again(pool: Pool) -> None:
    made, lease, devices = await claimed(pool, 2)
    await fan_out(pool, to_all(made, devices), lease, NOW)
    await add_device(pool)

    again = new_lease_id()
    taken_over = [await take_lost(pool, lease=again, now=NOW + SECOND) for _ in range(2)]

    assert [len(taken.profile.devices) for taken in taken_over if taken] == [1, 1]
    assert {taken.device_id for taken in taken_over if taken} == set(devices)
    assert await fan_out(pool, to_all(made, devices), again, NOW) == set()
    assert await pool.fetchval("select count(*) from deliveries") == 2


async def test_a_second_fan_out_under_the_same_lease_changes_nothing(pool: Pool) -> None:
    made, lease, devices = await claimed(pool, 2)
    await fan_out(pool, to_all(made, devices), lease, NOW)
    before = await pool.fetch("select * from deliveries order by id")

    assert await fan_out(pool, to_all(made, devices[::-1]), lease, NOW) == set()
    assert await pool.fetch("select * from deliveries order by id") == before


async def test_a_lost_lease_makes_no_siblings(pool: Pool) -> None:
    made, lost, devices = await claimed(pool, 2)
    assert await take_lost(pool, now=NOW + SECOND)

    assert await fan_out(pool, to_all(made, devices), lost, NOW) == set()
    assert (await delivery(pool, made))["device_id"] is None
    assert await pool.fetchval("select count(*) from deliveries") == 1


async def test_a_lease_lost_at_that_very_moment_makes_no_siblings(pool: Pool) -> None:
    made, lost, devices = await claimed(pool, 2)
    async with pool.acquire() as other:
        taking_over = other.transaction()
        await taking_over.start()
        heir = await take_lost(other, now=NOW + SECOND)
        fanning_out = asyncio.create_task(fan_out(pool, to_all(made, devices), lost, NOW))
        await found(lambda: waits_for_a_lock(pool))
        await taking_over.commit()

    assert await fanning_out == set()
    row = await delivery(pool, made)
    assert heir is not None
    assert (heir.id, row["device_id"], row["reserved"]) == (made, None, False)
    assert await pool.fetchval("select count(*) from deliveries") == 1


async def test_a_delivery_moves_to_another_lane_as_it_is(pool: Pool) -> None:
    made, lease, _ = await claimed(pool, 1, state="retrying", attempts=2)
    other = await add_delivery(pool, lane="expo")
    before = await delivery(pool, made)

    async with pool.acquire() as connection:
        await move(connection, [(made, "apns"), (other, "apns")], lease)

    assert await delivery(pool, made) == before | {"lane": "apns", "lease": None, "leased_until": None}
    (taken,) = await take(pool, lane="apns")
    assert (taken.id, taken.taken_over, taken.attempts) == (made, False, 2)
    assert (await delivery(pool, other))["lane"] == "expo"


async def test_who_lost_the_lease_moves_nothing_and_reserves_nothing(pool: Pool) -> None:
    made, lost, _ = await claimed(pool, 1)
    assert await take_lost(pool, now=NOW + SECOND)
    before = await delivery(pool, made)

    async with pool.acquire() as connection:
        await move(connection, [(made, "apns")], lost)
        await mark_reserved(connection, [made], lost)

    assert await delivery(pool, made) == before


async def test_a_place_within_the_limits_is_marked(pool: Pool) -> None:
    made, lease, _ = await claimed(pool, 1)
    other = await add_delivery(pool)
    before = await delivery(pool, made)

    async with pool.acquire() as connection:
        await mark_reserved(connection, [made, other], lease)

    assert await delivery(pool, made) == before | {"reserved": True}
    assert not (await delivery(pool, other))["reserved"]


async def test_the_lanes_in_which_something_waits_are_listed_once(pool: Pool) -> None:
    for lane in ("fcm", "fcm", "apns", "fanout"):
        await add_delivery(pool, lane=lane)
    await add_delivery(pool, lane="expo", state="scheduled", due_at=NOW + SECOND)
    await add_held(pool, "order", lane="smtp")
    await add_delivery(pool, lane="webhook", state="sent")

    async with pool.acquire() as connection:
        assert await waiting_lanes(connection) == ["apns", "expo", "fanout", "fcm", "smtp"]


async def test_no_lane_is_listed_while_nothing_waits(pool: Pool) -> None:
    await add_delivery(pool, state="sent")

    async with pool.acquire() as connection:
        assert await waiting_lanes(connection) == []


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"state": "retrying", "attempts": 1, "due_at": NOW + SECOND},
        {"state": "scheduled", "due_at": NOW + SECOND},
        {"state": "scheduled", "due_at": NEVER, "held_by": "order"},
        {"lease": UUID(int=1), "leased_until": NOW},
    ],
    ids=["due", "retrying", "scheduled", "held", "left by a dead worker"],
)
async def test_what_waits_leaves_a_lane_that_nobody_serves(pool: Pool, changes: dict[str, Any]) -> None:
    made = await add_delivery(pool, lane="expo", **changes)
    before = await delivery(pool, made)

    async with pool.acquire() as connection:
        assert await leave_lane(connection, "expo", NOW, 10) == 1
        assert await leave_lane(connection, "expo", NOW, 10) == 0

    assert await delivery(pool, made) == before | {"lane": "fanout"}


@pytest.mark.parametrize(
    "changes",
    [
        {"lane": "fcm"},
        {"state": "sent"},
        {"lease": UUID(int=1), "leased_until": NOW + SECOND},
    ],
    ids=["another lane", "settled", "being sent"],
)
async def test_only_what_waits_leaves_a_lane(pool: Pool, changes: dict[str, Any]) -> None:
    await add_delivery(pool, **{"lane": "expo"} | changes)

    async with pool.acquire() as connection:
        assert await leave_lane(connection, "expo", NOW, 10) == 0


async def test_a_bounded_number_leaves_a_lane_at_a_time_the_oldest_first(pool: Pool) -> None:
    made = [await add_delivery(pool, lane="expo", due_at=NOW - number * SECOND) for number in range(3)]

    async with pool.acquire() as connection:
        assert await leave_lane(connection, "expo", NOW, 2) == 2

    assert [(await delivery(pool, each))["lane"] for each in made] == ["expo", "fanout", "fanout"]
