import asyncio
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from tests.rows import NOW
from tocsin.store.health.circuit_breakers import (
    CircuitRow,
    Opening,
    close_circuit,
    end_rests,
    forget_circuits,
    grant,
    open_circuit,
    return_probe,
    take_probe,
    troubled,
)
from tocsin.store.health.provider_health import Alarm, list_alarms, raise_alarms
from tocsin.store.pool import Connection, Pool, PoolSettings

SECOND = timedelta(seconds=1)
HOUR = timedelta(hours=1)
WORKERS = PoolSettings().size
LAST = UUID(int=(1 << 128) - 1)


def opening(name: str = "fcm", **changes: Any) -> Opening:
    given: dict[str, Any] = {
        "name": name,
        "provider": name.partition("/")[0],
        "code": "UNAVAILABLE",
        "detail": "the service is overloaded",
        "after": timedelta(),
        "rest": 5 * SECOND,
        "longest": 60 * SECOND,
    }
    return Opening(**given | changes)


async def every_circuit(connection: Connection) -> list[CircuitRow]:
    columns = ", ".join(CircuitRow.__struct_fields__)
    # The names are those of the row's own fields.
    rows = await connection.fetch(f"select {columns} from circuits order by name")  # noqa: S608
    return [CircuitRow(**row) for row in rows]


async def trip(pool: Pool, now: datetime = NOW, **changes: Any) -> CircuitRow:
    async with pool.acquire() as connection, connection.transaction():
        opened = opening(**changes)
        await open_circuit(connection, opened, now)
        return (await troubled(connection))[opened.name]


async def probe(pool: Pool, now: datetime, name: str = "fcm") -> bool:
    async with pool.acquire() as connection:
        return await take_probe(connection, name, now, now + 60 * SECOND)


async def close(pool: Pool, now: datetime = NOW, name: str = "fcm") -> bool:
    async with pool.acquire() as connection:
        return await close_circuit(connection, name, now)


async def slot(pool: Pool, count: int, rate: float, ramp_seconds: float = 0) -> float:
    async with pool.acquire() as connection:
        granted = await grant(connection, "expo", count, rate, ramp_seconds)
    return max(0.0, granted.begins - granted.now)


async def alarm(pool: Pool, provider: str) -> None:
    async with pool.acquire() as connection:
        await raise_alarms(connection, {Alarm(provider, "UNAUTHENTICATED", "key revoked"): 1}, NOW)


async def standing(pool: Pool) -> list[str]:
    rows = await pool.fetch("select provider from alarms where cleared_at is null order by provider")
    return [row["provider"] for row in rows]


async def test_what_nobody_complained_of_is_closed(pool: Pool) -> None:
    assert await troubled(pool) == {}
    assert not await probe(pool, NOW)
    assert not await close(pool)


async def test_a_circuit_opens_with_its_cause_and_rests(pool: Pool) -> None:
    row = await trip(pool)

    assert row == CircuitRow(
        name="fcm",
        provider="fcm",
        state="open",
        code="UNAVAILABLE",
        detail="the service is overloaded",
        openings=1,
        changed_at=NOW,
        retry_at=NOW + 5 * SECOND,
        probe_until=None,
    )
    assert await troubled(pool) == {"fcm": row}


async def test_workers_that_find_a_provider_down_together_open_it_once(pool: Pool) -> None:
    await asyncio.gather(*(trip(pool) for _ in range(WORKERS)))

    (row,) = (await troubled(pool)).values()
    assert (row.openings, row.retry_at) == (1, NOW + 5 * SECOND)


async def test_the_longest_rest_that_was_asked_for_holds(pool: Pool) -> None:
    asked = [timedelta(), 90 * SECOND, 30 * SECOND, timedelta()]

    await asyncio.gather(*(trip(pool, after=after) for after in asked))

    (row,) = (await troubled(pool)).values()
    assert (row.openings, row.retry_at) == (1, NOW + 90 * SECOND)


async def test_failures_while_it_is_open_keep_it_open_without_doubling_its_rest(pool: Pool) -> None:
    await trip(pool)

    row = await trip(pool, now=NOW + 3 * SECOND, code="timeout")

    assert (row.openings, row.changed_at, row.retry_at) == (1, NOW, NOW + 8 * SECOND)
    assert row.code == "timeout"


async def test_each_failed_probe_doubles_the_rest_up_to_the_longest(pool: Pool) -> None:
    now, rests = NOW, []
    for _ in range(6):
        row = await trip(pool, now=now)
        assert row.retry_at is not None
        rests.append((row.retry_at - now) / SECOND)
        now = row.retry_at
        assert await probe(pool, now)

    assert rests == [5, 10, 20, 40, 60, 60]
    assert (await troubled(pool))["fcm"].openings == 6


async def test_a_circuit_that_closed_starts_with_the_shortest_rest_again(pool: Pool) -> None:
    for _ in range(3):
        row = await trip(pool)
        assert await probe(pool, row.retry_at or NOW)
    await close(pool)

    row = await trip(pool)

    assert (row.openings, row.retry_at) == (1, NOW + 5 * SECOND)


async def test_a_rest_never_exceeds_the_longest_unless_the_provider_asks_for_it(pool: Pool) -> None:
    assert (await trip(pool, rest=HOUR, longest=SECOND)).retry_at == NOW + SECOND
    assert (await trip(pool, after=HOUR, longest=SECOND)).retry_at == NOW + HOUR


async def test_one_worker_alone_may_try_a_rested_circuit(pool: Pool) -> None:
    await trip(pool)
    rested = NOW + 5 * SECOND

    early = await asyncio.gather(*(probe(pool, rested - timedelta(microseconds=1)) for _ in range(WORKERS)))
    taken = await asyncio.gather(*(probe(pool, rested) for _ in range(4 * WORKERS)))

    assert not any(early)
    assert taken.count(True) == 1
    row = (await troubled(pool))["fcm"]
    assert (row.state, row.probe_until) == ("half_open", rested + 60 * SECOND)


async def test_only_the_rests_of_one_provider_end_and_no_probe_is_doubled(pool: Pool) -> None:
    for name in ("webhook/a", "webhook/b", "webhook/c", "webpush/a"):
        await trip(pool, name=name, after=HOUR)
    await trip(pool, name="webhook/rested")
    assert await probe(pool, NOW + HOUR, "webhook/b")
    await close(pool, name="webhook/c")

    async with pool.acquire() as connection:
        assert await end_rests(connection, "webhook", NOW + 9 * SECOND) == ["webhook/a", "webhook/rested"]
        circuits = await troubled(connection)

    assert circuits["webhook/a"].retry_at == NOW + 9 * SECOND
    assert circuits["webhook/rested"].retry_at == NOW + 5 * SECOND
    assert not await probe(pool, NOW + 9 * SECOND, "webhook/b")
    assert not await probe(pool, NOW + 9 * SECOND, "webpush/a")


async def test_a_probe_whose_worker_died_is_taken_over_by_one_other(pool: Pool) -> None:
    await trip(pool)
    assert await probe(pool, NOW + 5 * SECOND)
    over = NOW + 65 * SECOND

    assert not await probe(pool, over - SECOND)
    taken = await asyncio.gather(*(probe(pool, over) for _ in range(WORKERS)))

    assert taken.count(True) == 1


async def test_a_probe_that_was_not_used_can_be_taken_again_at_once(pool: Pool) -> None:
    opened = await trip(pool)
    rested = NOW + 5 * SECOND
    assert await probe(pool, rested)

    async with pool.acquire() as connection:
        await return_probe(connection, "fcm", rested)

    row = (await troubled(pool))["fcm"]
    assert (row.state, row.openings, row.probe_until) == ("open", opened.openings, None)
    assert (row.code, row.detail, row.retry_at) == (opened.code, opened.detail, rested)
    assert await probe(pool, rested)


async def test_nothing_but_a_probe_under_way_can_be_returned(pool: Pool) -> None:
    opened = await trip(pool)
    await trip(pool, name="apns")
    await close(pool, name="apns")

    async with pool.acquire() as connection:
        for name in ("fcm", "apns", "expo"):
            await return_probe(connection, name, NOW)

    assert await troubled(pool) == {"fcm": opened}


async def test_of_all_that_close_a_circuit_one_is_told_that_it_did(pool: Pool) -> None:
    await trip(pool)

    closed = await asyncio.gather(*(close(pool) for _ in range(WORKERS)))

    assert closed.count(True) == 1
    assert await troubled(pool) == {}
    assert not await probe(pool, NOW + HOUR)
    async with pool.acquire() as connection:
        (row,) = await every_circuit(connection)
    assert (row.state, row.openings, row.code, row.detail, row.retry_at) == ("closed", 0, None, None, None)


async def test_opening_closing_and_probing_at_once_leave_a_circuit_that_can_be_used(pool: Pool) -> None:
    await trip(pool)
    later = NOW + HOUR

    await asyncio.gather(
        *(
            work
            for _ in range(WORKERS)
            for work in (trip(pool, now=later), probe(pool, later), close(pool, later))
        )
    )

    left = (await troubled(pool)).get("fcm")
    if left is not None:
        assert left.state == "half_open" or left.retry_at is not None
        assert await probe(pool, later + HOUR)


async def test_closing_clears_the_alarms_of_its_provider_alone(pool: Pool) -> None:
    for provider in ("fcm", "apns"):
        await trip(pool, name=provider, code="UNAUTHENTICATED")
        await alarm(pool, provider)

    await close(pool, NOW + HOUR)

    assert await standing(pool) == ["apns"]
    async with pool.acquire() as connection:
        rows = await list_alarms(connection, cleared=True, before=LAST, limit=10)
    assert [(row.cleared_at, row.cleared_by) for row in rows if row.provider == "fcm"] == [
        (NOW + HOUR, "recovered")
    ]


async def test_an_alarm_about_something_else_outlives_the_circuit(pool: Pool) -> None:
    await trip(pool, code="UNAVAILABLE")
    await alarm(pool, "fcm")

    await close(pool)

    assert await standing(pool) == ["fcm"]


async def test_an_alarm_stands_until_the_last_host_of_its_provider_recovered(pool: Pool) -> None:
    for host in ("a", "b"):
        await trip(pool, name=f"webpush/{host}.example", code="UNAUTHENTICATED")
    await alarm(pool, "webpush")

    await close(pool, name="webpush/a.example")
    assert await standing(pool) == ["webpush"]
    await close(pool, name="webpush/b.example")
    assert await standing(pool) == []


@pytest.mark.parametrize("words", ["a\x00b", "a\ud800b"], ids=["NUL", "half a character"])
async def test_words_that_postgres_cannot_keep_do_not_keep_a_circuit_from_opening(
    pool: Pool, words: str
) -> None:
    row = await trip(pool, code=words, detail=words)

    assert (row.code, row.detail) in [("a\ufffdb", "a\ufffdb"), ("a?b", "a?b")]


async def test_circuits_long_closed_and_idle_are_forgotten(pool: Pool) -> None:
    for name in ("closed", "lately", "open"):
        await trip(pool, name=name)
    await close(pool, NOW - HOUR, "closed")
    await close(pool, NOW, "lately")
    await slot(pool, 1, 10)
    await pool.execute("update circuits set changed_at = $1 where name in ('expo', 'open')", NOW - HOUR)

    await forget_circuits(pool, NOW)

    async with pool.acquire() as connection:
        kept = {row.name for row in await every_circuit(connection)}
    assert kept == {"expo", "lately", "open"}
