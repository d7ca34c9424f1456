import asyncio
from collections import Counter
from collections.abc import Mapping
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from tests.databases import SCHEMA
from tests.rows import NEVER, NOW, add_delivery, add_held, add_outcomes
from tocsin.domain.ids import uuid7
from tocsin.store.health.provider_health import (
    COUNT_DUE,
    Alarm,
    AlarmRecord,
    Counted,
    clear_alarm,
    count_due,
    count_in_flight,
    count_outcomes,
    counts_since,
    list_alarms,
    raise_alarms,
)
from tocsin.store.pool import Pool, PoolSettings, open_pool

MINUTE = timedelta(minutes=1)
WORKERS = PoolSettings().size
LAST = UUID(int=(1 << 128) - 1)
SENT = Counted("fcm", "sent", "")
BUSY = Counted("fcm", "retry", "UNAVAILABLE")
REVOKED = Alarm("fcm", "UNAUTHENTICATED", "key revoked")


async def count(pool: Pool, counts: Mapping[Counted, int]) -> None:
    async with pool.acquire() as connection:
        await count_outcomes(connection, counts)


async def counted(pool: Pool) -> dict[str, int]:
    """Return what was counted by code, as a minute may end between two writes."""
    sums: Counter[str] = Counter()
    async with pool.acquire() as connection:
        for row in await counts_since(connection, NOW):
            sums[row.code] += row.count
    return dict(sums)


async def sound(pool: Pool, alarms: Mapping[Alarm, int], minutes_later: int = 0) -> None:
    async with pool.acquire() as connection:
        await raise_alarms(connection, alarms, NOW + minutes_later * MINUTE)


async def listed(
    pool: Pool, *, cleared: bool = False, before: UUID = LAST, limit: int = 50
) -> list[AlarmRecord]:
    async with pool.acquire() as connection:
        return list(await list_alarms(connection, cleared=cleared, before=before, limit=limit))


async def clear(pool: Pool, alarm_id: UUID, by: str = "ada") -> AlarmRecord | None:
    async with pool.acquire() as connection:
        return await clear_alarm(connection, alarm_id, by, NOW + 5 * MINUTE)


async def test_outcomes_are_read_by_the_minute(pool: Pool) -> None:
    async with pool.acquire() as connection:
        for minutes_ago, counts in enumerate(({SENT: 5, BUSY: 2}, {SENT: 1}, {SENT: 10})):
            await add_outcomes(connection, counts, NOW - minutes_ago * MINUTE)

        rows = await counts_since(connection, NOW - MINUTE)

    assert [((NOW - row.minute) // MINUTE, row.outcome, row.code, row.count) for row in rows] == [
        (1, "sent", "", 1),
        (0, "retry", "UNAVAILABLE", 2),
        (0, "sent", "", 5),
    ]


async def test_workers_add_to_the_same_minute_in_any_order(pool: Pool) -> None:
    kinds = [Counted("fcm", "retry", f"code {number}") for number in range(30)]
    orders = [kinds[first:] + kinds[:first] for first in range(len(kinds))]

    await asyncio.gather(*(count(pool, dict.fromkeys(order, 3)) for order in orders))

    assert await counted(pool) == {kind.code: 3 * len(orders) for kind in kinds}


@pytest.mark.parametrize(("code", "kept"), [("a\x00b", "a\ufffdb"), ("a\ud800b", "a?b")])
async def test_a_code_that_postgres_cannot_keep_is_counted_all_the_same(
    pool: Pool, code: str, kept: str
) -> None:
    await count(pool, {Counted("fcm", "retry", code): 1, Counted("fcm", "retry", kept): 2})
    await sound(pool, {Alarm("fcm", code, code): 1, Alarm("fcm", kept, "d"): 2})

    assert await counted(pool) == {kept: 3}
    assert [(row.code, row.detail, row.count) for row in await listed(pool)] == [(kept, "d", 3)]


async def test_an_alarm_stands_once_however_many_workers_raise_it(pool: Pool) -> None:
    other = Alarm("fcm", "THIRD_PARTY_AUTH_ERROR", "no APNs key")
    alarms = [{REVOKED: 2, other: 1}, {other: 1, REVOKED: 2}]

    await asyncio.gather(*(sound(pool, alarms[number % 2]) for number in range(2 * WORKERS)))
    await sound(pool, {Alarm("fcm", REVOKED.code, "said anew"): 1}, minutes_later=1)

    rows = {row.code: row for row in await listed(pool)}
    assert len(await listed(pool, cleared=True)) == len(rows) == 2
    revoked = rows[REVOKED.code]
    assert (revoked.count, revoked.detail) == (4 * WORKERS + 1, "said anew")
    assert (revoked.raised_at, revoked.last_at) == (NOW, NOW + MINUTE)
    assert rows[other.code].count == 2 * WORKERS


async def test_several_details_of_one_alarm_are_one_alarm(pool: Pool) -> None:
    await sound(pool, {REVOKED: 2, Alarm("fcm", REVOKED.code, "in other words"): 3})

    assert [(row.detail, row.count) for row in await listed(pool)] == [("in other words", 5)]


async def test_a_cleared_alarm_stays_on_record_and_may_be_raised_anew(pool: Pool) -> None:
    await sound(pool, {REVOKED: 1})
    (first,) = await listed(pool)

    cleared = await clear(pool, first.alarm_id)

    assert cleared is not None
    assert (cleared.cleared_at, cleared.cleared_by) == (NOW + 5 * MINUTE, "ada")
    assert await listed(pool) == []
    await sound(pool, {REVOKED: 1}, minutes_later=10)
    (again,) = await listed(pool)
    assert (again.count, again.raised_at) == (1, NOW + 10 * MINUTE)
    assert await listed(pool, cleared=True) == [again, cleared]


async def test_one_of_all_that_clear_an_alarm_does(pool: Pool) -> None:
    await sound(pool, {REVOKED: 1})
    (alarm,) = await listed(pool)

    cleared = await asyncio.gather(*(clear(pool, alarm.alarm_id, f"operator {n}") for n in range(WORKERS)))

    (done,) = [row for row in cleared if row is not None]
    assert await listed(pool, cleared=True) == [done]
    assert await clear(pool, uuid7()) is None


@pytest.mark.parametrize("cleared", [False, True])
async def test_alarms_are_read_in_pages_the_newest_first(pool: Pool, *, cleared: bool) -> None:
    for number in range(5):
        await sound(pool, {Alarm("fcm", f"code {number}", ""): 1})

    first = await listed(pool, cleared=cleared, limit=3)
    second = await listed(pool, cleared=cleared, before=first[-1].alarm_id, limit=3)

    assert [row.code for row in first + second] == [f"code {number}" for number in (4, 3, 2, 1, 0)]


async def test_what_waits_in_a_lane_or_for_one_of_its_hosts_is_counted_up_to_a_number(pool: Pool) -> None:
    for _ in range(2):
        await add_delivery(pool, lane="webhook")
    for host in ("a.example", "b.example", "z.example"):
        await add_held(pool, f"host:webhook/{host}", lane="webhook")
    await add_delivery(pool, lane="webhook", state="retrying", due_at=NOW)
    await add_delivery(pool, lane="apns")

    async with pool.acquire() as connection:
        assert await count_due(connection, ["webhook", "apns", "fcm"], NOW, 100) == {
            "webhook": 6,
            "apns": 1,
            "fcm": 0,
        }
        assert await count_due(connection, ["apns"], NOW, 100) == {"apns": 1}
        # As many as that due, and as many held.
        assert await count_due(connection, ["webhook"], NOW, 2) == {"webhook": 4}
        assert await count_due(connection, [], NOW, 100) == {}


async def test_what_workers_hold_is_counted_among_the_first_that_are_due(pool: Pool) -> None:
    held: dict[str, Any] = {"lease": UUID(int=1), "leased_until": NOW + MINUTE}
    for number in range(3):
        await add_delivery(pool, lane="apns", due_at=NOW - number * MINUTE, **held)
    await add_delivery(pool, lane="apns", lease=UUID(int=2), leased_until=NOW)
    await add_delivery(pool, lane="apns", state="sent", **held)
    await add_delivery(pool, lane="fcm")

    async with pool.acquire() as connection:
        assert await count_in_flight(connection, ["apns", "fcm"], NOW, 100) == {"apns": 3, "fcm": 0}
        assert await count_in_flight(connection, ["apns"], NOW, 2) == {"apns": 2}


@pytest.mark.parametrize(
    "changes",
    [
        {"state": "scheduled", "due_at": NOW + MINUTE},
        {"state": "retrying", "due_at": NOW + MINUTE},
        {"lease": UUID(int=1), "leased_until": NOW + MINUTE},
        {"due_at": NEVER, "held_by": "order"},
        {"due_at": NEVER, "held_by": "type:new_customer"},
        {"due_at": NEVER, "held_by": "digest"},
        {"due_at": NEVER, "held_by": "host:webhooks/a.example"},
        {"due_at": NEVER, "held_by": "host:web/a.example"},
        {"state": "sent"},
        {"state": "sent", "held_by": "host:webhook/a.example"},
    ],
    ids=repr,
)
async def test_what_does_not_wait_for_the_provider_is_not_counted(
    pool: Pool, changes: dict[str, Any]
) -> None:
    await add_delivery(pool, **{"lane": "webhook"} | changes)

    async with pool.acquire() as connection:
        assert await count_due(connection, ["webhook"], NOW, 100) == {"webhook": 0}


@pytest.mark.parametrize("lookups_only", [False, True], ids=["api", "worker"])
async def test_counting_reads_only_what_waits_for_the_provider(
    database_url: str, *, lookups_only: bool
) -> None:
    async with open_pool(database_url, SCHEMA, PoolSettings(), lookups_only=lookups_only) as pool:
        rows = await pool.fetch(f"explain {COUNT_DUE}", ["webhook"], NOW, 10)

    plan = "\n".join(row[0] for row in rows)
    assert "Seq Scan" not in plan
    assert "deliveries_due_by_lane" in plan
    assert "deliveries_held" in plan
