from datetime import timedelta
from typing import Any
from uuid import UUID

from tests.rows import NOW, add_delivery, add_device, delivery, take
from tocsin.domain.ids import LeaseId, new_delivery_id, new_lease_id
from tocsin.store.deliveries.fan_out import FannedOut, fan_out
from tocsin.store.pool import Pool

SECOND = timedelta(seconds=1)


async def claimed(pool: Pool, devices: int, **changes: Any) -> tuple[UUID, LeaseId, list[UUID]]:
    """Give a claimed delivery, its lease and the devices it can go to."""
    there = [await add_device(pool) for _ in range(devices)]
    made = await add_delivery(pool, **changes)
    lease = new_lease_id()
    assert [taken.id for taken in await take(pool, lease=lease, until=NOW + SECOND)] == [made]
    return made, lease, there


def to_all(delivery_id: UUID, devices: list[UUID]) -> list[FannedOut]:
    first, *others = devices
    return [
        FannedOut(delivery_id, first, None),
        *(FannedOut(delivery_id, other, new_delivery_id()) for other in others),
    ]


async def test_each_device_has_a_delivery_under_the_same_lease(pool: Pool) -> None:
    made, lease, devices = await claimed(pool, 3, ordering_key="row", collapse_key="slot")
    wanted = to_all(made, devices)

    siblings = await fan_out(pool, wanted, lease, NOW)

    assert siblings == {each.sibling_id for each in wanted[1:]}
    original = await delivery(pool, made)
    assert original["device_id"] == devices[0]
    rows = [await delivery(pool, sibling) for sibling in siblings]
    assert {row["device_id"] for row in rows} == set(devices[1:])
    same = ("notification_id", "channel", "user_id", "state", "due_at", "lease", "leased_until")
    for row in rows:
        assert {name: row[name] for name in same} == {name: original[name] for name in same}
        assert (row["ordering_key"], row["collapse_key"]) == ("row", "slot")
        # The person was told of the notification once, by however many devices.
        assert (row["attempts"], row["reserved"]) == (0, True)


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
    rescued = await take(pool, lease=again, now=NOW + SECOND)

    assert [len(taken.devices) for taken in rescued] == [1, 1]
    assert {taken.device_id for taken in rescued} == set(devices)
    assert await fan_out(pool, to_all(made, devices), again, NOW) == set()
    assert await pool.fetchval("select count(*) from deliveries") == 2


async def test_a_lost_lease_makes_no_siblings(pool: Pool) -> None:
    made, lost, devices = await claimed(pool, 2)
    await take(pool, now=NOW + SECOND)

    assert await fan_out(pool, to_all(made, devices), lost, NOW) == set()
    assert (await delivery(pool, made))["device_id"] is None
    assert await pool.fetchval("select count(*) from deliveries") == 1
