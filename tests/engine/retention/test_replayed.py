"""What is replayed while a pass of retention runs."""

import asyncio

from tests.engine.retention.passing import DAY, FAST, THEN, remaining, settled_delivery
from tests.store.locks import waits_for_a_lock
from tests.waiting import found
from tocsin.domain.ids import uuid7
from tocsin.domain.retention import cutoffs
from tocsin.store.dead_letters.replaying import ADD_SIBLINGS
from tocsin.store.pool import Pool
from tocsin.store.retention import settled


async def test_a_delivery_that_is_replayed_meanwhile_keeps_its_notification(pool: Pool) -> None:
    times = cutoffs(FAST, THEN + 400 * DAY)
    replayed, other = await settled_delivery(pool, state="dead"), await settled_delivery(pool)
    async with pool.acquire() as connection:
        page = await settled.list_notifications(connection, settled.START, times, 100)
        await pool.execute(
            "update deliveries set state = 'pending', settled_at = null where id = $1", replayed
        )
        await settled.prune_notifications(connection, page.old, times, 100)

    assert [row["id"] for row in await pool.fetch("select id from deliveries")] == [replayed]
    assert await remaining(pool, "notifications") == 1
    assert other != replayed


async def test_a_notification_stays_while_a_replay_adds_deliveries_to_it(pool: Pool) -> None:
    """No foreign key holds it: the replayed delivery does, under the lock of the replay."""
    times = cutoffs(FAST, THEN + 400 * DAY)
    dead = await settled_delivery(pool, state="dead")
    sibling = uuid7()
    async with pool.acquire() as replaying, pool.acquire() as connection:
        page = await settled.list_notifications(connection, settled.START, times, 100)
        async with replaying.transaction():
            await replaying.execute(
                "update deliveries set state = 'pending', settled_at = null where id = $1", dead
            )
            await replaying.execute(ADD_SIBLINGS, [sibling], [dead], [uuid7()], ["fcm"], THEN, "[]")
            pruning = asyncio.create_task(settled.prune_notifications(connection, page.old, times, 100))
            await found(lambda: waits_for_a_lock(pool))
        assert await pruning == {"deliveries": 0, "notifications": 0, "notifications_emptied": 0}

    kept = await pool.fetch(
        "select d.id from deliveries as d join notifications as n on n.id = d.notification_id"
    )
    assert {row["id"] for row in kept} == {dead, sibling}
