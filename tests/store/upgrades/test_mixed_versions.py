"""Processes one version older, beside those of this one: neither undoes what the other wrote."""

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from tests.rows import NEVER, NOW, add_delivery, add_held, delivery, take
from tests.store.upgrades import previous_release
from tocsin.domain.catalog import CHANNELS
from tocsin.domain.delivery.held_by import HeldByUnknownType, stored_held_by
from tocsin.domain.delivery.states import CLAIMED, State
from tocsin.domain.ids import new_lease_id
from tocsin.store.deliveries.claim import START
from tocsin.store.deliveries.holds import held_by, release, reschedule
from tocsin.store.deliveries.read import of_notification
from tocsin.store.deliveries.settle import UnsentDelivery, settle_unsent
from tocsin.store.pool import Connection, Pool

LATER = NOW + timedelta(minutes=5)
UNKNOWN = stored_held_by(HeldByUnknownType("comment", 2))


async def settle(pool: Pool, **changes: Any) -> UUID:
    """Claim a delivery and settle it, with a worker of this version, as one that waits."""
    made = await add_delivery(pool)
    lease = new_lease_id()
    await take(pool, lease=lease)
    fields: dict[str, Any] = {"state": State.RETRYING, "tried_at": NOW} | changes
    await settle_unsent(pool, [UnsentDelivery(id=made, lease=lease, **fields)], NOW)
    return made


async def previous_sweep(connection: Connection | Pool) -> None:
    """Release what the previous version releases every second: whatever it does not know."""
    for row in await connection.fetch(previous_release.HELD_BY):
        await connection.execute(previous_release.RELEASE, row["value"], NOW, 5_000, list(CHANNELS))


async def previous_claim(connection: Connection | Pool, now: datetime) -> list[Any]:
    lease = new_lease_id()
    rows: list[Any] = await connection.fetch(
        previous_release.CLAIM, "fcm", now, lease, now + timedelta(minutes=1), START.due_at, START.id, 100
    )
    return rows


async def previous_settle(connection: Connection | Pool, row: Any, state: State) -> None:
    """Settle by the previous version what it claimed."""
    lease = (await delivery(connection, row["id"]))["lease"]
    texts: list[Any] = [[None]] * 7
    await connection.execute(
        previous_release.SETTLE_UNSENT,
        *([row["id"]], [lease], [state], [None], [0], [LATER], *texts[:5], [NOW]),
        *([None], [None], [None], [False], [None], [None], NOW, sorted(CLAIMED)),
    )


async def test_what_waits_for_a_type_is_not_touched_by_the_previous_version(pool: Pool) -> None:
    """It would release the delivery every second, and reject it for good if it claimed it."""
    made = await settle(pool, held_by=UNKNOWN)
    before = await delivery(pool, made)

    await previous_sweep(pool)

    assert await delivery(pool, made) == before
    assert await previous_claim(pool, NOW + timedelta(days=1)) == []
    assert await held_by(pool) == [UNKNOWN]
    (shown,) = await of_notification(pool, before["notification_id"], 2)
    assert (shown.held_by, shown.due_at) == (UNKNOWN, None)

    assert await release(pool, UNKNOWN, NOW) == 1
    assert [each.id for each in await take(pool)] == [made]


async def test_what_recovers_waits_for_its_time_beside_the_previous_version(pool: Pool) -> None:
    """The previous version tries it when it is due, and its own attempts end as they always did."""
    made = await settle(pool, recovering=True, due_at=LATER)
    before = await delivery(pool, made)

    await previous_sweep(pool)

    assert await delivery(pool, made) == before
    assert await previous_claim(pool, NOW) == []
    (shown,) = await of_notification(pool, before["notification_id"], 2)
    assert (shown.held_by, shown.due_at) == ("recovery", LATER)

    (row,) = await previous_claim(pool, LATER)
    await previous_settle(pool, row, State.RETRYING)
    (again,) = await take(pool, now=LATER)
    assert (again.id, again.recovering) == (made, True)


@pytest.mark.parametrize("holder", ["order", "digest", "host:webhook/a.example", "type:comment"])
async def test_what_the_previous_version_holds_is_held_by_the_same_here(pool: Pool, holder: str) -> None:
    await add_held(pool, holder)

    assert await held_by(pool) == [holder]
    assert await take(pool) == []


async def test_a_new_time_ends_the_wait_for_a_type(pool: Pool) -> None:
    """Also if the previous version sets it, which does not know that mark: it is due then and not sooner."""
    made = await settle(pool, held_by=UNKNOWN, state=State.SCHEDULED)
    await pool.execute("update deliveries set due_at = $1, held_by = null", LATER)
    assert await release(pool, UNKNOWN, NOW) == 0

    notification_id = (await delivery(pool, made))["notification_id"]
    assert await reschedule(pool, notification_id, LATER + timedelta(hours=1), NOW) == 1

    row = await delivery(pool, made)
    assert (row["unknown_type"], row["due_at"] < NEVER.replace(tzinfo=NOW.tzinfo)) == (None, True)
    assert await held_by(pool) == []
