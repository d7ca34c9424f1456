import json
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg
import msgspec
import pytest

from tests.databases import SCHEMA
from tests.rows import NOW, add_delivery, add_device, add_notification, add_waiting, delivery, insert, take
from tocsin.domain.decide import Person
from tocsin.domain.delivery.states import WAITING, State
from tocsin.domain.ids import new_lease_id
from tocsin.store.deliveries.claim import CLAIM, START, Position, ReachedDevice
from tocsin.store.pool import Connection, Pool, PoolSettings, open_pool

SECOND = timedelta(seconds=1)


async def test_what_is_due_is_taken_in_order(pool: Pool) -> None:
    late = await add_delivery(pool, due_at=NOW)
    early = await add_delivery(pool, due_at=NOW - 2 * SECOND)
    middle = await add_delivery(pool, due_at=NOW - SECOND, state="retrying", attempts=2)

    assert [taken.id for taken in await take(pool)] == [early, middle, late]


async def test_no_more_is_taken_than_asked_for(pool: Pool) -> None:
    made = [await add_delivery(pool) for _ in range(5)]

    assert [taken.id for taken in await take(pool, limit=2)] == made[:2]
    assert [taken.id for taken in await take(pool, limit=2)] == made[2:4]
    assert [taken.id for taken in await take(pool, limit=2)] == made[4:]
    assert await take(pool, limit=2) == []


@pytest.mark.parametrize(
    "changes",
    [
        {"due_at": NOW + SECOND},
        {"due_at": NOW + SECOND, "state": "scheduled"},
        {"channel": "email"},
        {"state": "sent"},
        {"state": "dead"},
        {"state": "cancelled"},
        {"state": "skipped", "reason": "no_device"},
        {"lease": UUID(int=1), "leased_until": NOW + SECOND},
    ],
    ids=repr,
)
async def test_what_is_not_due_or_not_free_stays(pool: Pool, changes: dict[str, Any]) -> None:
    await add_delivery(pool, **changes)

    assert await take(pool) == []


async def test_a_claim_takes_a_lease_and_spends_no_attempt(pool: Pool) -> None:
    made = await add_delivery(pool)
    lease = new_lease_id()

    (taken,) = await take(pool, lease=lease, until=NOW + 30 * SECOND)

    assert (taken.id, taken.attempts, taken.rescued) == (made, 0, False)
    row = await delivery(pool, made)
    assert (row["lease"], row["leased_until"]) == (lease, NOW + 30 * SECOND)
    assert (row["state"], row["attempts"]) == ("pending", 0)


async def test_an_expired_lease_is_taken_over_and_counts_as_a_lost_attempt(pool: Pool) -> None:
    made = await add_delivery(pool)
    await take(pool, until=NOW + 30 * SECOND)
    assert await take(pool, now=NOW + 29 * SECOND) == []

    (rescued,) = await take(pool, now=NOW + 30 * SECOND, until=NOW + 60 * SECOND)
    (again,) = await take(pool, now=NOW + 60 * SECOND)

    assert (rescued.id, rescued.rescued, rescued.attempts) == (made, True, 1)
    assert (again.rescued, again.attempts) == (True, 2)


async def test_what_was_scheduled_becomes_pending_when_taken(pool: Pool) -> None:
    made = await add_delivery(pool, state="scheduled")
    await take(pool)

    assert (await delivery(pool, made))["state"] == "pending"


async def test_what_is_retrying_stays_so_when_taken(pool: Pool) -> None:
    made = await add_delivery(pool, state="retrying", attempts=1)
    await take(pool)

    assert (await delivery(pool, made))["state"] == "retrying"


async def test_a_round_goes_on_behind_its_cursor(pool: Pool) -> None:
    made = [await add_delivery(pool, due_at=NOW - number * SECOND) for number in (3, 2, 2, 1)]
    cursor = Position(NOW - 2 * SECOND, made[1])

    assert [taken.id for taken in await take(pool, after=cursor)] == made[2:]
    assert [taken.id for taken in await take(pool, after=START)] == made[:2]


async def test_two_claims_at_once_never_take_the_same(pool: Pool) -> None:
    made = [await add_delivery(pool) for _ in range(6)]
    async with pool.acquire() as one, pool.acquire() as other, one.transaction():
        first = await take(one, limit=3)
        second = await take(other, limit=10)

    assert [taken.id for taken in first] == made[:3]
    assert [taken.id for taken in second] == made[3:]


async def test_all_a_send_needs_is_read_at_the_claim(pool: Pool) -> None:
    await add_person(pool, locale="tr-TR")
    device_id = await add_device(pool, token="t1", platform="ios", locale="ko", timezone="Asia/Seoul")
    notification_id = await add_notification(
        pool, collapse_key="c", expires_at=NOW + SECOND, request_id="r", trace_id="t"
    )
    made = await add_delivery(pool, notification_id=notification_id)

    (taken,) = await take(pool)

    assert msgspec.structs.asdict(taken) == {
        "id": made,
        "notification_id": notification_id,
        "channel": "push",
        "due_at": NOW,
        "attempts": 0,
        "rescued": False,
        "behind": False,
        "superseded": False,
        "user_id": "ada",
        "address": None,
        "device_id": None,
        "ordering_key": None,
        "reserved": False,
        "digest_key": None,
        "digest_id": None,
        "type": "new_customer",
        "version": 2,
        "payload": taken.payload,
        "collapse_key": "c",
        "expires_at": NOW + SECOND,
        "send_at_local": None,
        "accepted_at": NOW,
        "cancelled": False,
        "producer": "shop",
        "request_id": "r",
        "trace_id": "t",
        "mailbox": None,
        "suppressed": False,
        "fallback_for": None,
        "confirmed": False,
        "awaited_at": None,
        "person": Person(
            timezone="Europe/Istanbul",
            gmt_offset_seconds=10_800,
            allowed_window="08:00-20:00",
            choices={"news": {"push": False}},
        ),
        "locale": "tr-TR",
        "devices": (
            ReachedDevice(
                id=device_id,
                token="t1",
                provider="fcm",
                platform="ios",
                locale="ko",
                timezone="Asia/Seoul",
                last_seen_at=NOW,
            ),
        ),
    }
    assert msgspec.json.decode(taken.payload) == {"customer_name": "Ali Veli"}


async def test_nothing_known_of_a_person_is_nothing_known(pool: Pool) -> None:
    await add_delivery(pool)

    (taken,) = await take(pool)

    assert (taken.person, taken.locale, taken.devices) == (Person(), None, ())


async def test_the_devices_are_those_of_that_moment_the_one_used_last_first(pool: Pool) -> None:
    devices = [await add_device(pool, last_seen_at=NOW - number * SECOND) for number in (2, 1, 3)]
    await add_device(pool, retired_at=NOW, retired_reason="gone")
    await add_device(pool, push_enabled=False)
    await add_device(pool, "bob")
    made = [await add_delivery(pool) for _ in range(2)]

    taken = await take(pool)

    assert [each.id for each in taken] == made
    for each in taken:
        assert [device.id for device in each.devices] == [devices[1], devices[0], devices[2]]
    assert await pool.fetchval("select count(*) from deliveries") == 2


async def test_no_more_deliveries_are_taken_than_asked_for_however_many_devices_they_have(
    pool: Pool,
) -> None:
    for _ in range(3):
        await add_device(pool)
    made = [await add_delivery(pool) for _ in range(3)]

    assert [each.id for each in await take(pool, limit=2)] == made[:2]


async def test_a_delivery_that_has_its_device_goes_to_that_one_alone(pool: Pool) -> None:
    device_id = await add_device(pool)
    await add_device(pool)
    await add_delivery(pool, device_id=device_id, state="retrying", attempts=1)

    (taken,) = await take(pool)

    assert [device.id for device in taken.devices] == [device_id]


@pytest.mark.parametrize(
    "change",
    [
        "push_enabled = false",
        "retired_at = now(), retired_reason = 'unregistered'",
        "user_id = 'bob'",
    ],
    ids=["consent", "retired", "new owner"],
)
async def test_a_device_lost_while_the_delivery_waited_is_no_longer_there(pool: Pool, change: str) -> None:
    device_id = await add_device(pool)
    await add_delivery(pool, device_id=device_id, state="retrying", attempts=1)
    await pool.execute(f"update devices set {change}")  # noqa: S608 - one of the three above

    (taken,) = await take(pool)

    assert (taken.device_id, taken.devices) == (device_id, ())


async def test_a_token_refreshed_while_the_delivery_waited_is_used(pool: Pool) -> None:
    device_id = await add_device(pool, token="old")
    await add_delivery(pool, device_id=device_id, state="retrying", attempts=1)
    await pool.execute("update devices set token = 'new'")

    (taken,) = await take(pool)

    assert [device.token for device in taken.devices] == ["new"]


async def test_a_delivery_to_an_address_needs_no_device(pool: Pool) -> None:
    await add_delivery(pool, None, channel="email", address="ada@example.com")

    (taken,) = await take(pool, channel="email")

    assert (taken.address, taken.device_id, taken.devices) == ("ada@example.com", None, ())


async def test_what_goes_to_no_phone_is_not_read_once_for_each(pool: Pool) -> None:
    await add_device(pool)
    await add_device(pool)
    made = await add_delivery(pool, channel="email")

    (taken,) = await take(pool, channel="email")

    assert (taken.id, taken.devices) == (made, ())


@pytest.mark.parametrize("state", sorted(State))
async def test_one_is_behind_as_long_as_an_earlier_one_of_its_row_waits(pool: Pool, state: State) -> None:
    await add_delivery(pool, ordering_key="row", state=state, reason="r", due_at=NOW + SECOND)
    await add_delivery(pool, ordering_key="another row", due_at=NOW + SECOND)
    made = await add_delivery(pool, ordering_key="row")
    await add_delivery(pool, ordering_key="row", due_at=NOW + SECOND)

    (taken,) = await take(pool)

    assert (taken.id, taken.behind) == (made, state in WAITING)


async def test_those_of_one_notification_do_not_stand_in_each_others_way(pool: Pool) -> None:
    notification_id = await add_notification(pool)
    for _ in range(2):
        await add_delivery(pool, notification_id=notification_id, ordering_key="row", collapse_key="slot")

    assert [(each.behind, each.superseded) for each in await take(pool)] == [(False, False)] * 2


@pytest.mark.parametrize("state", sorted(State))
async def test_one_is_superseded_while_a_newer_of_the_same_collapse_key_waits(
    pool: Pool, state: State
) -> None:
    await add_delivery(pool, collapse_key="slot", due_at=NOW + SECOND)
    made = await add_delivery(pool, collapse_key="slot")
    await add_delivery(pool, collapse_key="another slot", due_at=NOW + SECOND)
    await add_delivery(pool, collapse_key="slot", state=state, reason="r", due_at=NOW + SECOND)

    (taken,) = await take(pool)

    assert (taken.id, taken.superseded) == (made, state in WAITING)


async def test_what_was_taken_back_is_known_at_the_claim(pool: Pool) -> None:
    notification_id = await add_notification(pool, cancelled_at=NOW, send_at_local=datetime(2026, 3, 2, 9))  # noqa: DTZ001
    await add_delivery(pool, notification_id=notification_id, reserved=True)

    (taken,) = await take(pool)

    assert (taken.cancelled, taken.reserved) == (True, True)
    assert taken.send_at_local == datetime(2026, 3, 2, 9)  # noqa: DTZ001 - a wall time has no zone


async def add_person(pool: Pool, locale: str) -> None:
    await pool.execute(
        """
        insert into users (user_id, locale, timezone, gmt_offset_seconds, allowed_window, updated_at)
        values ('ada', $1, 'Europe/Istanbul', 10800, '08:00-20:00', $2)
        """,
        locale,
        NOW,
    )
    await pool.execute(
        "insert into preferences (user_id, choices, updated_at) values ('ada', $1, $2)",
        '{"news": {"push": false}}',
        NOW,
    )


def nodes(plan: dict[str, Any]) -> list[dict[str, Any]]:
    return [plan, *(node for inner in plan.get("Plans", ()) for node in nodes(inner))]


async def explained(connection: Connection, limit: int) -> list[dict[str, Any]]:
    """Show the plan that is kept for every claim, whatever its arguments."""
    await connection.execute("set plan_cache_mode = force_generic_plan")
    await connection.execute(f"prepare kept as {CLAIM}")
    arguments = (
        "push",
        NOW + 10 * SECOND,
        new_lease_id(),
        NOW + 40 * SECOND,
        START.due_at,
        START.id,
        limit,
    )
    written = ", ".join(f"'{argument}'" for argument in arguments)
    text = await connection.fetchval(f"explain (analyze, format json) execute kept({written})")
    return nodes(json.loads(text)[0]["Plan"])


@pytest.mark.parametrize("analyzed", [False, True], ids=["fresh", "analyzed"])
async def test_a_claim_reads_the_head_of_the_due_index_and_nothing_else(
    database_url: str, *, analyzed: bool
) -> None:
    async with (
        open_pool(database_url, SCHEMA, PoolSettings(), lookups_only=True) as pool,
        pool.acquire() as connection,
    ):
        await add_device(connection)
        await add_waiting(connection, 20_000)
        if analyzed:
            await connection.execute("analyze")
        plan = await explained(connection, 50)

    (due,) = [node for node in plan if node.get("Index Name") == "deliveries_due"]
    assert due["Node Type"] == "Index Scan"
    assert due["Actual Rows"] == 50
    assert "due_at <=" in due["Index Cond"]
    assert [node["Node Type"] for node in plan if node["Node Type"] == "Seq Scan"] == []
    # Fifty rows may be put in order at the end; the backlog never.
    sorts = [node for node in plan if "Sort" in node["Node Type"]]
    assert all(node["Actual Rows"] <= 50 for node in sorts)
    assert sum(node["Actual Rows"] for node in plan if node.get("Relation Name") == "deliveries") <= 200


async def test_taking_a_lease_touches_no_index_while_the_page_has_room(database_url: str) -> None:
    async with (
        open_pool(database_url, SCHEMA, PoolSettings(), lookups_only=True) as pool,
        pool.acquire() as connection,
    ):
        await add_device(connection)
        await add_waiting(connection, 2_000)

        assert len(await take(connection, now=NOW + SECOND, limit=8)) == 8

        await connection.execute("select pg_stat_force_next_flush()")
        updates = await connection.fetchrow(
            "select n_tup_upd, n_tup_hot_upd from pg_stat_user_tables where relname = 'deliveries'"
        )
    assert tuple(updates) == (8, 8)


async def test_a_claim_leaves_other_statements_waiting_for_the_disk(pool: Pool) -> None:
    await add_delivery(pool)
    async with pool.acquire() as connection:
        await take(connection)

        assert await connection.fetchval("show synchronous_commit") == "on"


async def test_an_unknown_state_is_not_stored(pool: Pool) -> None:
    with pytest.raises(asyncpg.CheckViolationError):
        await add_delivery(pool, state="lost")
    with pytest.raises(asyncpg.CheckViolationError):
        await add_delivery(pool, state="skipped")
    with pytest.raises(asyncpg.ForeignKeyViolationError):
        await insert(
            pool,
            "deliveries",
            {
                "id": new_lease_id(),
                "notification_id": new_lease_id(),
                "channel": "push",
                "state": "pending",
                "due_at": NOW,
                "created_at": NOW,
            },
        )
