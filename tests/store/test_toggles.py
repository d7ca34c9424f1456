import asyncio
from datetime import UTC, datetime, timedelta

from tests.waiting import until
from tocsin.store import toggles
from tocsin.store.pool import Pool
from tocsin.store.toggles import ToggleRow

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


async def switch(
    pool: Pool, name: str, *, enabled: bool, reason: str | None = None, by: str = "ada", now: datetime = NOW
) -> ToggleRow:
    async with pool.acquire() as connection:
        return await toggles.change(connection, name, enabled=enabled, reason=reason, by=by, now=now)


async def test_without_a_row_everything_is_on(pool: Pool) -> None:
    assert await toggles.off(pool) == frozenset()
    assert await toggles.list_all(pool) == []
    assert await toggles.history(pool) == []


async def test_a_switch_is_stored_with_who_and_why(pool: Pool) -> None:
    row = await switch(pool, "type:new_customer", enabled=False, reason="wrong text")

    assert row == ToggleRow(
        name="type:new_customer", enabled=False, reason="wrong text", updated_by="ada", updated_at=NOW
    )
    assert await toggles.off(pool) == {"type:new_customer"}
    assert await toggles.list_all(pool) == [row]


async def test_what_is_off_is_listed_first_with_its_last_reason(pool: Pool) -> None:
    await switch(pool, "channel:email", enabled=False, reason="bounces")
    await switch(pool, "channel:email", enabled=True, by="grace")
    await switch(pool, "type:z", enabled=False, reason="first")
    await switch(pool, "type:z", enabled=False, reason="second")

    listed = await toggles.list_all(pool)

    assert [(row.name, row.enabled, row.reason, row.updated_by) for row in listed] == [
        ("type:z", False, "second", "ada"),
        ("channel:email", True, None, "grace"),
    ]
    assert await toggles.off(pool) == {"type:z"}


async def test_every_switch_is_kept_with_what_it_was_before(pool: Pool) -> None:
    await switch(pool, "provider:fcm", enabled=False, reason="outage")
    await switch(pool, "provider:fcm", enabled=False, reason="still", by="grace")
    await switch(pool, "provider:fcm", enabled=True, now=NOW + timedelta(hours=1))
    await switch(pool, "type:other", enabled=True)

    changes = await toggles.history(pool, "provider:fcm")

    assert [
        (change.was_enabled, change.enabled, change.reason, change.changed_by, change.changed_at)
        for change in changes
    ] == [
        (False, True, None, "ada", NOW + timedelta(hours=1)),
        (False, False, "still", "grace", NOW),
        (True, False, "outage", "ada", NOW),
    ]
    assert [change.name for change in await toggles.history(pool, limit=2)] == ["type:other", "provider:fcm"]


async def test_a_history_is_read_in_pages(pool: Pool) -> None:
    for number in range(5):
        await switch(pool, "type:a", enabled=bool(number % 2), reason=str(number))
        await switch(pool, "type:b", enabled=False)

    first = await toggles.history(pool, "type:a", limit=2)
    second = await toggles.history(pool, "type:a", before=first[-1].id, limit=10)

    assert [change.reason for change in [*first, *second]] == ["4", "3", "2", "1", "0"]


async def test_the_history_has_no_gap_when_many_switch_at_once(pool: Pool) -> None:
    names = ("type:a", "type:b")
    await asyncio.gather(
        *(
            switch(pool, names[number % 2], enabled=bool(number // 2 % 2), reason=str(number))
            for number in range(60)
        )
    )

    changes = (await toggles.history(pool))[::-1]
    assert sorted(int(change.reason or "") for change in changes) == list(range(60))
    left = dict.fromkeys(names, True)
    for change in changes:
        assert change.was_enabled is left[change.name]
        left[change.name] = change.enabled
    assert {row.name: row.enabled for row in await toggles.list_all(pool)} == left


async def test_a_switch_taken_back_leaves_nothing_and_tells_nobody(pool: Pool) -> None:
    heard: list[str] = []

    def hear(*news: str) -> None:
        heard.append(news[-1])

    async with pool.acquire() as listener, pool.acquire() as connection:
        await listener.add_listener("tocsin_toggles", hear)
        transaction = connection.transaction()
        await transaction.start()
        await toggles.change(connection, "type:a", enabled=False, reason=None, by="ada", now=NOW)
        await transaction.rollback()
        assert await toggles.off(connection) == frozenset()
        assert await toggles.history(connection) == []

        await toggles.change(connection, "type:b", enabled=False, reason=None, by="ada", now=NOW)
        await connection.execute("notify tocsin_toggles, 'end'")
        await until(lambda: "end" in heard)
        assert heard == ["", "end"]
        await listener.remove_listener("tocsin_toggles", hear)


async def test_reading_goes_on_while_a_switch_is_under_way(pool: Pool) -> None:
    async with pool.acquire() as connection, connection.transaction():
        await toggles.change(connection, "type:a", enabled=False, reason=None, by="ada", now=NOW)

        async with asyncio.timeout(5):
            assert await toggles.off(pool) == frozenset()
            assert await toggles.list_all(pool) == []
