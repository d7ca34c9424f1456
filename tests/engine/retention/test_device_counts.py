"""What devices got stays counted when its deliveries are pruned."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests import rows
from tests.engine.retention.passing import DAY, THEN, prune, remaining, settled_delivery
from tests.store.locks import waits_for_a_lock
from tests.waiting import found
from tocsin.domain.people.devices import DeviceSettings
from tocsin.store.people import devices
from tocsin.store.people.devices import DeviceRegistration
from tocsin.store.pool import Pool

HOUR = timedelta(hours=1)
LATER = THEN + 31 * DAY
"""When what was settled at `THEN` is pruned."""


async def counted(pool: Pool, user_id: str = "ada") -> dict[UUID, tuple[int, float | None]]:
    """Return how many messages each device of a person got, and the hour of the last."""
    listed = await devices.of_user(pool, user_id, include_retired=True)
    return {
        row.id: (row.notification_count, (row.last_sent_at - THEN) / HOUR if row.last_sent_at else None)
        for row in listed
    }


async def add(pool: Pool, device_id: UUID | None, hour: float, **changes: Any) -> None:
    await settled_delivery(pool, THEN + hour * HOUR, device_id=device_id, **changes)


async def test_what_was_pruned_stays_counted(pool: Pool) -> None:
    phone, tablet = await rows.add_device(pool), await rows.add_device(pool)
    for hour in (1, 2, 3):
        await add(pool, phone, hour)
    await add(pool, tablet, 1, state="delivered")
    await add(pool, tablet, 2, state="rejected")
    await add(pool, None, 2)
    # It is younger, and stays.
    await add(pool, phone, 24 * 20)
    before = await counted(pool)

    assert (await prune(pool, LATER))["deliveries"] == 6

    assert await counted(pool) == before == {phone: (4, 480), tablet: (1, 1)}
    assert (await prune(pool, LATER + 30 * DAY))["deliveries"] == 1
    assert await counted(pool) == before


async def test_what_older_versions_counted_is_not_counted_again_when_pruned(pool: Pool) -> None:
    phone = await rows.add_device(pool, notification_count=7, last_sent_at=THEN + 2 * HOUR)
    for hour in (1, 2, 3):
        await add(pool, phone, hour)

    await prune(pool, LATER)

    assert await counted(pool) == {phone: (8, 3)}


async def test_a_carrier_of_a_digest_stays_counted(pool: Pool) -> None:
    phone = await rows.add_device(pool)
    digest_id = await rows.add_digest(pool, state="ended", opened_at=THEN)
    sent = {"state": "sent", "settled_at": THEN, "created_at": THEN}
    await rows.add_carrier(pool, digest_id, device_id=phone, **sent)

    await prune(pool, LATER)

    assert await remaining(pool, "deliveries") == 0
    assert await counted(pool) == {phone: (1, 0)}


async def test_a_device_that_has_another_owner_shows_nothing_of_the_last(pool: Pool) -> None:
    phone = await rows.add_device(pool, "bob")
    await add(pool, phone, 1, user_id="ada")
    await add(pool, phone, 2, user_id="bob")
    # An erased person.
    await add(pool, phone, 3, user_id=None)

    await prune(pool, LATER)

    assert await counted(pool, "bob") == {phone: (1, 2)}


async def test_a_new_owner_does_not_see_what_was_pruned(pool: Pool) -> None:
    phone = await rows.add_device(pool, token="phone")
    await add(pool, phone, 1)
    await prune(pool, LATER)

    wanted = DeviceRegistration(user_id="bob", token="phone", platform="android", provider="fcm")
    await devices.register(pool, wanted, DeviceSettings(), LATER)

    assert await counted(pool, "bob") == {phone: (0, None)}


async def test_a_pass_waits_for_a_device_and_counts_on(pool: Pool) -> None:
    phone = await rows.add_device(pool)
    await add(pool, phone, 1)
    async with asyncio.TaskGroup() as group, pool.acquire() as other, other.transaction():
        await other.execute(
            "update devices set notification_count = 5, last_sent_at = $2 where id = $1", phone, THEN
        )
        group.create_task(prune(pool, LATER))
        await found(lambda: waits_for_a_lock(pool))

    assert await counted(pool) == {phone: (6, 1)}


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    sent=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 60)), max_size=12),
    watermarks=st.lists(st.none() | st.integers(0, 60), min_size=3, max_size=3),
    passes=st.lists(st.integers(0, 95), min_size=1, max_size=3).map(sorted),
)
async def test_no_pass_changes_a_count(
    pool: Pool, sent: Sequence[tuple[int, int]], watermarks: Sequence[int | None], passes: Sequence[int]
) -> None:
    await pool.execute("truncate deliveries, notifications, devices cascade")
    phones = [
        await rows.add_device(
            pool,
            notification_count=0 if day is None else day,
            last_sent_at=None if day is None else THEN + day * DAY,
        )
        for day in watermarks
    ]
    for phone, day in sent:
        await add(pool, phones[phone], 24 * day)
    before = await counted(pool)

    for day in passes:
        await prune(pool, THEN + day * DAY)
        assert await counted(pool) == before
