"""A token refresh locks the counters of limits in the order in which every other statement does."""

import asyncio
from datetime import timedelta

from tests.rows import NOW, add_device, device
from tests.store.locks import waits_for_a_lock
from tests.waiting import found
from tocsin.domain.limits import device_key
from tocsin.store.people.token_refresh import take_over_token
from tocsin.store.pool import Pool

ENDS = NOW + timedelta(days=1)
USE = "update limit_counters set used = used + 1 where key = $1"


async def test_a_refresh_and_one_who_counts_for_both_devices_do_not_deadlock(pool: Pool) -> None:
    kept, merged = await add_device(pool), await add_device(pool)
    keys = [device_key(kept), device_key(merged)]
    assert keys == sorted(keys)
    for used, key in enumerate(keys, start=2):
        await pool.execute("insert into limit_counters values ($1, $2, $3)", key, ENDS, used)
    hashes = {each: (await device(pool, each))["token_hash"] for each in (kept, merged)}

    async def refresh() -> None:
        async with pool.acquire() as connection, connection.transaction():
            await take_over_token(connection, "ada", new=hashes[merged], old=hashes[kept], now=NOW)

    async with pool.acquire() as counting, counting.transaction():
        await counting.execute(USE, keys[0])
        refreshing = asyncio.create_task(refresh())
        await found(lambda: waits_for_a_lock(pool))
        await counting.execute(USE, keys[1])
    await refreshing

    counters = await pool.fetch("select key, used from limit_counters")
    assert [tuple(row) for row in counters] == [(keys[0], 7)]
