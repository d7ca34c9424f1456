"""How many messages a device got is read from the deliveries that are stored."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TypeAlias
from uuid import UUID

import pytest

from tests.rows import NOW, add_delivery, add_device, device
from tests.store.locks import waits_for_a_lock
from tests.waiting import found
from tocsin.domain.people.devices import DeviceSettings, token_hash
from tocsin.store.people import devices, export, sent_counts
from tocsin.store.people.devices import DeviceRegistration, DeviceRow, Registered
from tocsin.store.people.endpoints import webhook as endpoints
from tocsin.store.pool import Connection, Pool

Read: TypeAlias = Callable[[Connection], Awaitable[object]]
Change: TypeAlias = Callable[[Pool, UUID], Awaitable[object]]

SETTINGS = DeviceSettings(registrations_per_hour=10_000)
MINUTE = timedelta(minutes=1)


async def add_sent(
    pool: Pool, device_id: UUID, minute: int, user_id: str = "ada", state: str = "sent"
) -> None:
    settled = {"state": state, "settled_at": NOW + minute * MINUTE, "reason": "r"}
    await add_delivery(pool, device_id=device_id, user_id=user_id, **settled)


async def listed(pool: Pool, user_id: str = "ada") -> dict[bytes, tuple[int, float | None]]:
    """Return, by the hash of its token, how many messages each device got, and the minute of the last."""
    rows: list[DeviceRow] = await devices.of_user(pool, user_id, include_retired=True)
    return {
        row.token_hash: (
            row.notification_count,
            (row.last_sent_at - NOW) / MINUTE if row.last_sent_at else None,
        )
        for row in rows
    }


async def register(pool: Pool, user_id: str, token: str, replaces: str | None = None) -> DeviceRow:
    wanted = DeviceRegistration(
        user_id=user_id, token=token, platform="android", provider="fcm", replaces_token=replaces
    )
    result = await devices.register(pool, wanted, SETTINGS, NOW)
    assert isinstance(result, Registered)
    return result.device


async def test_what_was_sent_and_delivered_is_counted_and_nothing_else(pool: Pool) -> None:
    phone = await add_device(pool, token="phone")
    await add_device(pool, token="tablet")
    for minute, state in enumerate(("sent", "delivered", "sent", "rejected", "gone", "skipped", "cancelled")):
        await add_sent(pool, phone, minute, state=state)

    assert await listed(pool) == {token_hash("phone"): (3, 2), token_hash("tablet"): (0, None)}


async def test_what_older_versions_counted_is_counted_once(pool: Pool) -> None:
    phone = await add_device(pool, token="phone", notification_count=7, last_sent_at=NOW + 3 * MINUTE)
    for minute in (2, 3, 4, 5):
        await add_sent(pool, phone, minute)

    assert await listed(pool) == {token_hash("phone"): (9, 5)}


async def test_devices_that_become_one_have_the_counts_of_both(pool: Pool) -> None:
    old, known = await register(pool, "ada", "old"), await register(pool, "ada", "new")
    for minute in (1, 3):
        await add_sent(pool, old.id, minute)
    await add_sent(pool, known.id, 2)

    merged = await register(pool, "ada", "new", replaces="old")
    assert (merged.id, merged.notification_count, merged.last_sent_at) == (old.id, 3, NOW + 3 * MINUTE)

    await add_sent(pool, old.id, 4)
    assert await listed(pool) == {token_hash("new"): (4, 4), token_hash("old"): (0, 3)}


async def test_a_new_owner_counts_only_what_they_got(pool: Pool) -> None:
    phone = await register(pool, "ada", "phone")
    await add_sent(pool, phone.id, 1)

    assert (await register(pool, "bob", "phone")).notification_count == 0

    await add_sent(pool, phone.id, 2, user_id="bob")
    assert await listed(pool, "bob") == {token_hash("phone"): (1, 2)}


async def test_a_token_that_another_person_had_shows_nothing_of_them(pool: Pool) -> None:
    await register(pool, "ada", "old")
    theirs = await register(pool, "bob", "new")
    await pool.execute(
        "update devices set notification_count = 3, last_sent_at = $2 where id = $1", theirs.id, NOW
    )

    await register(pool, "ada", "new", replaces="old")

    row = await device(pool, theirs.id)
    assert (row["user_id"], row["notification_count"], row["last_sent_at"]) == ("ada", 0, None)


async def test_no_more_than_the_newest_of_a_person_are_looked_through(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sent_counts, "MOST_COUNTED", 2)
    phone = await add_device(pool, token="phone")
    for minute in range(4):
        await add_sent(pool, phone, minute)

    assert await listed(pool) == {token_hash("phone"): (2, 3)}


async def read_totals(connection: Connection) -> object:
    return await sent_counts.totals(
        connection, await connection.fetchval("select array_agg(id) from devices")
    )


READS: dict[str, Read] = {
    "active devices": lambda connection: devices.of_user(connection, "ada", include_retired=False),
    "all devices": lambda connection: devices.of_user(connection, "ada", include_retired=True),
    "active endpoints": lambda connection: endpoints.of_user(connection, "ada", include_retired=False),
    "all endpoints": lambda connection: endpoints.of_user(connection, "ada", include_retired=True),
    "export of devices": lambda connection: export.devices(connection, "ada"),
    "export of endpoints": lambda connection: export.endpoints(connection, "ada"),
    "totals": read_totals,
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
async def test_the_deliveries_of_a_person_are_read_once_for_all_their_devices(pool: Pool, read: Read) -> None:
    for number in range(4):
        phone = await add_device(pool, token=f"phone{number}")
        endpoint = await add_device(pool, token=f"hook{number}", provider="webhook", secret="s")
        for minute in range(5):
            await add_sent(pool, phone, minute)
            await add_sent(pool, endpoint, minute)

    async with pool.acquire() as connection, connection.transaction():
        await read(connection)
        # Read before this transaction is added to the totals.
        scans, rows = await connection.fetchrow(
            "select idx_scan, idx_tup_fetch from pg_stat_xact_user_tables where relname = 'deliveries'"
        )

    assert (scans, rows) == (1, 40)


ADVISORY_LOCKS = """
select count(*)
from pg_locks
join pg_database on pg_database.oid = pg_locks.database
where locktype = 'advisory' and datname = current_database()
"""
CHANGES: dict[str, Change] = {
    "register": lambda pool, _: register(pool, "ada", "phone"),
    "unregister": lambda pool, phone: devices.unregister(pool, "ada", device_id=phone, now=NOW),
    "set_consent": lambda pool, phone: devices.set_consent(pool, "ada", phone, push_enabled=False),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
async def test_a_change_is_committed_before_its_device_is_counted(pool: Pool, change: Change) -> None:
    phone = await add_device(pool, token="phone", last_seen_at=NOW - MINUTE)
    await add_sent(pool, phone, 1)
    before = await device(pool, phone)

    async with pool.acquire() as blocking, blocking.transaction():
        await blocking.execute("lock table deliveries in access exclusive mode")
        changing = asyncio.ensure_future(change(pool, phone))
        await found(lambda: waits_for_a_lock(pool))
        changed = await device(pool, phone)
        locked = await pool.fetchval(ADVISORY_LOCKS)
    row = await changing

    assert changed != before
    assert locked == 0
    assert isinstance(row, DeviceRow)
    assert (row.notification_count, row.last_sent_at) == (1, NOW + MINUTE)


async def test_a_retired_endpoint_has_its_count(pool: Pool) -> None:
    endpoint = await add_device(pool, provider="webhook", secret="s", notification_count=2)
    await add_sent(pool, endpoint, 1)

    retired = await endpoints.retire(pool, "ada", endpoint, NOW)

    assert retired is not None
    assert (retired.notification_count, retired.last_sent_at) == (3, NOW + MINUTE)
