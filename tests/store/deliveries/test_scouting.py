import json
from typing import Any

import pytest

from tests.databases import SCHEMA
from tests.rows import NOW, add_delivery, add_device, add_waiting, take
from tocsin.domain.ids import new_lease_id
from tocsin.store.deliveries.claim import SCOUT, START, Position, claim_named, scout
from tocsin.store.pool import Pool, PoolSettings, open_pool

MANY = 20_000


async def looked(pool: Pool, *providers: str, after: Position = START, look_at: int = 100) -> Any:
    async with pool.acquire() as connection:
        return await scout(connection, "push", providers, now=NOW, after=after, look_at=look_at)


async def test_only_what_certain_providers_can_be_used_for_is_named(pool: Pool) -> None:
    await add_device(pool, "ada", provider="fcm")
    await add_device(pool, "bob", provider="apns")
    await add_device(pool, "cem", provider="apns", push_enabled=False)
    await add_device(pool, "both", provider="fcm")
    second = await add_device(pool, "both", provider="apns")
    for user in ("ada", "cem", "nobody"):
        await add_delivery(pool, user)
    bobs, boths = await add_delivery(pool, "bob"), await add_delivery(pool, "both")
    bound = await add_delivery(pool, "both", device_id=second)

    ids, following = await looked(pool, "apns")

    assert ids == [bobs, boths, bound]
    assert following == START


async def test_the_next_look_goes_on_where_the_last_one_ended(pool: Pool) -> None:
    await add_device(pool, "bob", provider="apns")
    for _ in range(5):
        await add_delivery(pool, "ada")
    bobs = await add_delivery(pool, "bob")

    first, following = await looked(pool, "apns", look_at=4)
    second, after_that = await looked(pool, "apns", after=following, look_at=4)

    assert (first, second) == ([], [bobs])
    assert after_that == START


async def test_what_was_taken_meanwhile_is_left_to_others(pool: Pool) -> None:
    await add_device(pool, "bob", provider="apns")
    made = [await add_delivery(pool, "bob") for _ in range(2)]
    taken = await take(pool, limit=1)
    async with pool.acquire() as connection:
        claimed = await claim_named(
            connection, "push", lease=new_lease_id(), now=NOW, until=NOW.replace(hour=13), ids=made
        )

    assert [each.id for each in claimed] == [each for each in made if each != taken[0].id]
    assert claimed[0].devices[0].provider == "apns"


@pytest.mark.parametrize("analyzed", [False, True], ids=["fresh", "analyzed"])
async def test_a_look_reads_no_more_than_it_looks_at(database_url: str, *, analyzed: bool) -> None:
    async with (
        open_pool(database_url, SCHEMA, PoolSettings(), lookups_only=True) as pool,
        pool.acquire() as connection,
    ):
        await add_device(connection)
        await add_waiting(connection, MANY)
        if analyzed:
            await connection.execute("analyze")
        await connection.execute("set plan_cache_mode = force_generic_plan")
        await connection.execute(f"prepare kept as {SCOUT}")
        given = f"'push', '{NOW.replace(hour=13)}', '{START.due_at}', '{START.id}', '{{apns}}', 500"
        text = await connection.fetchval(f"explain (analyze, format json) execute kept({given})")

    plan = _nodes(json.loads(text)[0]["Plan"])
    (due,) = [node for node in plan if node.get("Index Name") == "deliveries_due"]
    assert due["Actual Rows"] == 500
    assert not [node for node in plan if node["Node Type"] == "Seq Scan"]


def _nodes(plan: dict[str, Any]) -> list[dict[str, Any]]:
    return [plan, *(node for below in plan.get("Plans", ()) for node in _nodes(below))]
