import asyncio
from datetime import timedelta
from typing import Any
from uuid import UUID

from tests.rows import NOW
from tocsin.domain.delivery.reasons import Reason
from tocsin.domain.ids import new_delivery_id
from tocsin.domain.limits import Allowance
from tocsin.store.limits import LimitRequest, reserve, used
from tocsin.store.pool import Pool

TOMORROW = NOW + timedelta(days=1)


def allowance(key: str = "person:ada", limit: int = 3, **changes: Any) -> Allowance:
    given: dict[str, Any] = {
        "key": key,
        "limit": limit,
        "ends_at": TOMORROW,
        "reason": Reason.DAILY_LIMIT,
        "beyond": "skip",
        "detail": "-",
    }
    return Allowance(**given | changes)


def deliveries(count: int) -> list[UUID]:
    return [new_delivery_id() for _ in range(count)]


async def ask(pool: Pool, asking: list[UUID], *allowances: Allowance) -> dict[UUID, Allowance]:
    async with pool.acquire() as connection:
        return await reserve(connection, [LimitRequest(each, allowances) for each in asking])


async def counted(pool: Pool, *allowances: Allowance) -> dict[str, int]:
    async with pool.acquire() as connection:
        return await used(connection, allowances)


async def test_the_first_to_ask_have_the_places(pool: Pool) -> None:
    made = deliveries(5)

    refused = await ask(pool, made, allowance())

    assert refused == dict.fromkeys(made[3:], allowance())
    assert await counted(pool, allowance()) == {"person:ada": 3}


async def test_what_was_used_before_counts(pool: Pool) -> None:
    made = deliveries(4)
    await ask(pool, made[:2], allowance())

    assert set(await ask(pool, made[2:], allowance())) == {made[3]}


async def test_another_key_and_another_window_have_places_of_their_own(pool: Pool) -> None:
    made = deliveries(3)
    only = allowance(limit=1)

    assert await ask(pool, made[:1], only) == {}
    assert await ask(pool, made[1:2], allowance("person:bob", 1)) == {}
    assert await ask(pool, made[2:], allowance(limit=1, ends_at=TOMORROW)) != {}
    assert await ask(pool, made[2:], allowance(limit=1, ends_at=TOMORROW + timedelta(days=1))) == {}


async def test_who_is_refused_by_one_allowance_uses_none_of_the_others(pool: Pool) -> None:
    made = deliveries(3)
    person, category = allowance(limit=10), allowance("category:news:ada", 1)

    refused = await ask(pool, made, person, category)

    assert refused == dict.fromkeys(made[1:], category)
    assert await counted(pool, person, category) == {"person:ada": 1, "category:news:ada": 1}


async def test_a_lowered_limit_lets_no_more_through(pool: Pool) -> None:
    made = deliveries(4)
    await ask(pool, made[:3], allowance(limit=3))

    assert set(await ask(pool, made[3:], allowance(limit=1))) == {made[3]}


async def test_two_versions_of_a_type_with_other_limits_count_together(pool: Pool) -> None:
    first, second, third = deliveries(3)
    old, new = allowance("type:t:ada", 5), allowance("type:t:ada", 2)
    requests = [LimitRequest(first, (old,)), LimitRequest(second, (new,)), LimitRequest(third, (new,))]

    async with pool.acquire() as connection:
        refused = await reserve(connection, requests)

    assert refused == {third: new}
    assert await counted(pool, new) == {"type:t:ada": 2}


async def test_windows_of_one_key_that_end_apart_have_room_each(pool: Pool) -> None:
    first, second = deliveries(2)
    later = allowance(limit=1, ends_at=TOMORROW + timedelta(hours=1))
    requests = [LimitRequest(first, (allowance(limit=1),)), LimitRequest(second, (later,))]

    async with pool.acquire() as connection:
        assert await reserve(connection, requests) == {}


async def test_workers_that_ask_crosswise_at_once_get_exactly_the_places_there_are(pool: Pool) -> None:
    made = deliveries(160)
    keys = [allowance(f"person:{number}", 4) for number in range(10)]
    asking = []
    for worker in range(8):
        mine = made[worker * 20 : worker * 20 + 20]
        order = keys if worker % 2 else keys[::-1]
        requests = [LimitRequest(each, (order[number % 10],)) for number, each in enumerate(mine)]

        async def reserving(requests: list[LimitRequest] = requests) -> int:
            async with pool.acquire() as connection:
                return len(requests) - len(await reserve(connection, requests))

        asking.append(reserving())

    assert sum(await asyncio.gather(*asking)) == 40
    assert set((await counted(pool, *keys)).values()) == {4}


async def test_what_nobody_used_is_not_counted(pool: Pool) -> None:
    assert await counted(pool, allowance()) == {}
