"""Devices not seen for long are marked, then retired; being seen again brings them back."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from tests.rows import add_device, device
from tocsin.domain.people.devices import DeviceSettings
from tocsin.store.people import devices
from tocsin.store.people.devices import DeviceRegistration, Registered
from tocsin.store.people.stale_devices import MARK_STALE, RETIRE_UNSEEN, mark_stale, retire_unseen
from tocsin.store.pool import Connection, Pool

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
RULES = DeviceSettings()
SECOND = timedelta(seconds=1)


def days(count: int) -> datetime:
    return NOW - timedelta(days=count)


async def seen(pool: Pool, at: datetime, **changes: Any) -> UUID:
    return await add_device(pool, last_seen_at=at, **changes)


async def marked(pool: Pool) -> set[UUID]:
    return {row["id"] for row in await pool.fetch("select id from devices where stale_at is not null")}


async def retired(pool: Pool) -> dict[UUID, str]:
    rows = await pool.fetch("select id, retired_reason from devices where retired_at is not null")
    return {row["id"]: row["retired_reason"] for row in rows}


async def test_what_was_not_seen_for_a_month_is_marked_once(pool: Pool) -> None:
    long = await seen(pool, days(30) - SECOND)
    await seen(pool, days(30))

    assert await mark_stale(pool, NOW, RULES, 10) == 1
    assert await mark_stale(pool, NOW + SECOND, RULES, 10) == 1
    assert await mark_stale(pool, NOW + SECOND, RULES, 10) == 0
    assert (await device(pool, long))["stale_at"] == NOW


async def test_what_was_not_seen_for_nine_months_is_retired(pool: Pool) -> None:
    long = await seen(pool, days(270) - SECOND)
    await seen(pool, days(270))

    assert await retire_unseen(pool, NOW, RULES, 10) == 1
    assert await retire_unseen(pool, NOW, RULES, 10) == 0
    assert await retired(pool) == {long: "not_seen"}
    assert (await device(pool, long))["retired_at"] == NOW


async def test_the_longest_unseen_come_first_and_no_more_than_asked_for(pool: Pool) -> None:
    rows = [await seen(pool, days(300 + number)) for number in range(5)]

    assert await mark_stale(pool, NOW, RULES, 2) == 2
    assert await marked(pool) == set(rows[3:])
    assert await retire_unseen(pool, NOW, RULES, 3) == 3
    assert set(await retired(pool)) == set(rows[2:])


async def test_endpoints_and_retired_devices_are_left_alone(pool: Pool) -> None:
    await seen(pool, days(400), provider="webhook", platform="webhook")
    gone = await seen(pool, days(400), retired_at=days(390), retired_reason="unregistered")

    assert await mark_stale(pool, NOW, RULES, 10) == 0
    assert await retire_unseen(pool, NOW, RULES, 10) == 0
    assert await retired(pool) == {gone: "unregistered"}


async def test_zero_days_mean_never(pool: Pool) -> None:
    await seen(pool, days(4_000))
    never = DeviceSettings(stale_after_days=0, retire_after_days=0)

    assert await mark_stale(pool, NOW, never, 10) == 0
    assert await retire_unseen(pool, NOW, never, 10) == 0


async def test_a_device_that_registers_again_is_as_before(pool: Pool) -> None:
    await seen(pool, days(300), token="t1")
    await mark_stale(pool, NOW, RULES, 10)
    await retire_unseen(pool, NOW, RULES, 10)
    again = DeviceRegistration(user_id="ada", token="t1", platform="android", provider="fcm")

    result = await devices.register(pool, again, RULES, NOW)

    assert isinstance(result, Registered)
    assert (result.device.stale_at, result.device.retired_at, result.device.last_seen_at) == (None, None, NOW)
    assert await mark_stale(pool, NOW, RULES, 10) == 0


async def test_a_device_that_is_registering_right_now_is_passed_over(pool: Pool) -> None:
    held, free = await seen(pool, days(301)), await seen(pool, days(300))
    async with pool.acquire() as connection, connection.transaction():
        await connection.execute("select from devices where id = $1 for update", held)

        assert await mark_stale(pool, NOW, RULES, 10) == 1
        assert await retire_unseen(pool, NOW, RULES, 10) == 1

    assert set(await retired(pool)) == {free}
    assert await retire_unseen(pool, NOW, RULES, 10) == 1


@pytest.mark.parametrize("statement", [MARK_STALE, RETIRE_UNSEEN], ids=["mark", "retire"])
async def test_the_unseen_are_found_by_an_index(pool: Pool, statement: str) -> None:
    await pool.execute(
        """
        insert into devices (id, user_id, provider, platform, token, token_hash, registered_at, last_seen_at)
        select
            gen_random_uuid(), 'ada', 'fcm', 'android', number::text, sha256(number::text::bytea),
            $1::timestamptz, $1::timestamptz - number * interval '1 minute'
        from generate_series(1, 20000) as number
        """,
        NOW,
    )
    await pool.execute("analyze devices")
    async with pool.acquire() as connection:
        plan = await plan_of(connection, statement)

    assert "Seq Scan" not in plan
    assert "last_seen_at <" in plan.partition("Index Cond")[2]


async def plan_of(connection: Connection, statement: str) -> str:
    await connection.execute("set plan_cache_mode = force_generic_plan")
    await connection.execute(f"prepare kept as {statement}")
    reason = ", 'not_seen'" if statement is RETIRE_UNSEEN else ""
    lines = await connection.fetch(f"explain execute kept('{days(5)}', 100, '{NOW}'{reason})")
    return "\n".join(line[0] for line in lines)
