import asyncio
from datetime import timedelta
from typing import Any
from uuid import UUID

import msgspec
import pytest

from tests.databases import SCHEMA
from tests.rows import NOW, add_delivery, add_device, delivery, device, got, take
from tests.store.deliveries.settlements import LATER, SECOND, claimed, gone, sent, unsent
from tests.store.locks import waits_for_a_lock
from tests.waiting import found
from tocsin.domain.decide import Step
from tocsin.domain.delivery.states import CLAIMED, State
from tocsin.domain.ids import new_lease_id
from tocsin.store.deliveries.read import attempts_of, of_notification
from tocsin.store.deliveries.settle import settle_sent, settle_unsent
from tocsin.store.pool import Pool, PoolSettings, open_pool


async def test_a_sent_delivery_is_written_down_and_counted(pool: Pool) -> None:
    made, lease, device_id = await claimed(pool)

    assert (await settle_sent(pool, [sent(made, lease, "projects/x/messages/1")], LATER)).count == 1

    row = await delivery(pool, made)
    assert (row["state"], row["attempts"], row["settled_at"], row["lane"]) == ("sent", 1, LATER, "fcm")
    assert (row["provider"], row["provider_message_id"]) == ("fcm", "projects/x/messages/1")
    assert (row["lease"], row["leased_until"]) == (None, None)
    assert await got(pool, device_id) == (1, LATER)


async def test_several_messages_to_one_device_are_all_counted(pool: Pool) -> None:
    device_id = await add_device(pool)
    made = [await add_delivery(pool, device_id=device_id) for _ in range(3)]
    lease = new_lease_id()
    await take(pool, lease=lease)

    assert (await settle_sent(pool, [sent(each, lease) for each in made], LATER)).count == 3
    assert await got(pool, device_id) == (3, LATER)


async def test_a_retry_waits_free_of_its_lease_with_its_attempt_recorded(pool: Pool) -> None:
    made, lease, device_id = await claimed(pool)

    assert (await settle_unsent(pool, [unsent(made, lease)], LATER)).count == 1

    row = await delivery(pool, made)
    assert (row["state"], row["attempts"], row["due_at"]) == ("retrying", 1, NOW + 60 * SECOND)
    assert (row["lease"], row["leased_until"], row["settled_at"]) == (None, None, None)
    assert (row["last_error_code"], row["last_error"]) == ("UNAVAILABLE", "busy")
    (attempt,) = await attempts_of(pool, [made], 10)
    assert (attempt.outcome, attempt.code, attempt.detail, attempt.at) == (
        "retry",
        "UNAVAILABLE",
        "busy",
        NOW,
    )
    assert await got(pool, device_id) == (0, None)
    assert (await device(pool, device_id))["retired_at"] is None
    (again,) = await take(pool, now=NOW + 60 * SECOND)
    assert (again.attempts, again.taken_over) == (1, False)


async def test_a_skip_has_its_reason_and_no_attempt(pool: Pool) -> None:
    made, lease, _ = await claimed(pool)
    skip = unsent(
        made, lease, state=State.SKIPPED, reason="no_device", spent=0, due_at=None, provider=None,
        outcome=None, code=None, detail=None,
    )  # fmt: skip

    await settle_unsent(pool, [skip], LATER)

    row = await delivery(pool, made)
    assert (row["state"], row["reason"], row["attempts"]) == ("skipped", "no_device", 0)
    assert (row["settled_at"], row["due_at"]) == (LATER, NOW)
    assert await attempts_of(pool, [made], 10) == []


async def test_a_later_skip_keeps_the_error_of_the_last_attempt(pool: Pool) -> None:
    made, lease, _ = await claimed(pool)
    await settle_unsent(pool, [unsent(made, lease, due_at=NOW)], LATER)
    again = new_lease_id()
    await take(pool, lease=again)

    await settle_unsent(
        pool,
        [
            unsent(
                made, again, state=State.EXPIRED, spent=0, due_at=None, outcome=None, code=None, detail=None
            )
        ],
        LATER,
    )

    assert (await delivery(pool, made))["last_error_code"] == "UNAVAILABLE"


async def test_a_device_that_is_gone_retires_with_the_settlement(pool: Pool) -> None:
    made, lease, device_id = await claimed(pool)

    assert (await settle_unsent(pool, [gone(made, lease)], LATER)).count == 1

    assert (await delivery(pool, made))["state"] == "gone"
    phone = await device(pool, device_id)
    assert (phone["retired_at"], phone["retired_reason"]) == (LATER, "gone: X")


async def test_a_device_that_registered_again_after_the_attempt_stays(pool: Pool) -> None:
    made, lease, device_id = await claimed(pool)
    await pool.execute("update devices set last_seen_at = $1", NOW + SECOND)

    assert (await settle_unsent(pool, [gone(made, lease, tried_at=NOW)], LATER)).count == 1

    assert (await delivery(pool, made))["state"] == "gone"
    assert (await device(pool, device_id))["retired_at"] is None


async def test_a_device_retired_before_keeps_its_first_reason(pool: Pool) -> None:
    made, lease, device_id = await claimed(pool)
    await pool.execute("update devices set retired_at = $1, retired_reason = 'unregistered'", NOW)

    await settle_unsent(pool, [gone(made, lease)], LATER)

    phone = await device(pool, device_id)
    assert (phone["retired_at"], phone["retired_reason"]) == (NOW, "unregistered")


@pytest.mark.parametrize("stale", ["another lease", "settled before", "cancelled meanwhile"])
async def test_who_comes_late_changes_nothing(pool: Pool, stale: str) -> None:
    made, lease, device_id = await claimed(pool)
    match stale:
        case "another lease":
            await pool.execute("update deliveries set lease = $1", new_lease_id())
        case "settled before":
            await settle_sent(pool, [sent(made, lease, "first")], NOW)
        case _:
            await pool.execute("update deliveries set state = 'cancelled'")
    before = await delivery(pool, made), await device(pool, device_id)

    assert (await settle_sent(pool, [sent(made, lease, "late")], LATER)).count == 0
    assert (await settle_unsent(pool, [gone(made, lease)], LATER)).count == 0

    assert (await delivery(pool, made), await device(pool, device_id)) == before
    assert await attempts_of(pool, [made], 10) == []


@pytest.mark.parametrize("state", sorted(set(State) - CLAIMED))
async def test_only_what_is_claimed_can_be_settled(pool: Pool, state: State) -> None:
    lease = new_lease_id()
    made = await add_delivery(pool, state=state, reason="r", lease=lease, leased_until=LATER)

    assert (await settle_sent(pool, [sent(made, lease)], LATER)).count == 0
    assert (await settle_unsent(pool, [unsent(made, lease)], LATER)).count == 0
    assert (await delivery(pool, made))["state"] == state


async def test_one_late_delivery_does_not_hold_back_the_rest(pool: Pool) -> None:
    device_id = await add_device(pool)
    made = [await add_delivery(pool, device_id=device_id) for _ in range(3)]
    lease = new_lease_id()
    await take(pool, lease=lease)
    await pool.execute("update deliveries set lease = null where id = $1", made[1])

    assert (await settle_sent(pool, [sent(each, lease) for each in made], LATER)).count == 2
    assert await got(pool, device_id) == (2, LATER)


async def test_every_state_a_verdict_gives_is_stored_as_given(pool: Pool) -> None:
    states = [State.RETRYING, State.SCHEDULED, State.REJECTED, State.GONE, State.DEAD, State.EXPIRED]
    device_id = await add_device(pool)
    made = [await add_delivery(pool, device_id=device_id) for _ in states]
    lease = new_lease_id()
    await take(pool, lease=lease)

    batch = [unsent(each, lease, state=state) for each, state in zip(made, states, strict=True)]
    assert (await settle_unsent(pool, batch, LATER)).count == len(states)

    rows = [await delivery(pool, each) for each in made]
    assert [row["state"] for row in rows] == states
    assert [row["settled_at"] for row in rows] == [None, None, LATER, LATER, LATER, LATER]


async def test_the_device_that_was_tried_is_noted_and_counted(pool: Pool) -> None:
    device_id = await add_device(pool)
    lease = new_lease_id()
    taken, failed = [await add_delivery(pool, lease=lease, leased_until=LATER) for _ in range(2)]

    await settle_sent(pool, [msgspec.structs.replace(sent(taken, lease), device_id=device_id)], LATER)
    await settle_unsent(pool, [gone(failed, lease, device_id=device_id)], LATER)

    assert [(await delivery(pool, each))["device_id"] for each in (taken, failed)] == [device_id] * 2
    assert await got(pool, device_id) == (1, LATER)
    assert (await device(pool, device_id))["retired_reason"] == "gone: X"


async def test_a_delivery_keeps_the_device_it_has(pool: Pool) -> None:
    made, lease, device_id = await claimed(pool)
    other = await add_device(pool)

    await settle_unsent(pool, [unsent(made, lease, device_id=other)], LATER)

    assert (await delivery(pool, made))["device_id"] == device_id


async def test_the_way_of_a_delivery_grows_with_each_settlement(pool: Pool) -> None:
    steps = [Step(rule="quiet_hours", result="hold", detail=str(day), at=NOW, until=LATER) for day in (1, 2)]
    made, lease, _ = await claimed(pool)
    await settle_unsent(pool, [unsent(made, lease, due_at=NOW, decisions=written(steps[:1]))], LATER)
    again = new_lease_id()
    await take(pool, lease=again)
    await settle_unsent(pool, [unsent(made, again, due_at=NOW, decisions=written(steps[1:]))], LATER)
    last = new_lease_id()
    await take(pool, lease=last)
    await settle_sent(pool, [sent(made, last)], LATER)

    (row,) = await of_notification(pool, (await delivery(pool, made))["notification_id"], 1)

    assert row.decisions == steps


async def held_again(pool: Pool, made: UUID, *steps: Step) -> list[Step]:
    """Claim a delivery, hold it with these decisions and return what is stored."""
    lease = new_lease_id()
    assert await take(pool, lease=lease)
    await settle_unsent(pool, [unsent(made, lease, due_at=NOW, decisions=written(list(steps)))], LATER)
    notification_id = (await delivery(pool, made))["notification_id"]
    async with pool.acquire() as connection:
        (row,) = await of_notification(connection, notification_id, 1)
    return row.decisions


def a_step(detail: str, number: int = 0, **changes: Any) -> Step:
    at = NOW + number * SECOND
    return Step(rule="toggle", result="hold", detail=detail, at=at, until=at + SECOND, **changes)


async def test_decisions_that_repeat_are_counted_and_not_stored_again(pool: Pool) -> None:
    made, lease, _ = await claimed(pool)
    await settle_unsent(pool, [unsent(made, lease, due_at=NOW, decisions=written([a_step("z")]))], LATER)
    for number in range(1, 200):
        decisions = await held_again(pool, made, a_step("a", number), a_step("b", number))

    assert decisions == [a_step("z"), a_step("a", 199, count=199), a_step("b", 199, count=199)]
    assert await held_again(pool, made, a_step("b", 200)) == [
        *decisions[:2],
        a_step("b", 200, count=200),
    ]
    assert (await held_again(pool, made, a_step("a", 201)))[3:] == [a_step("a", 201)]


async def test_of_many_decisions_the_newest_are_kept(pool: Pool) -> None:
    made, lease, _ = await claimed(pool)
    await settle_unsent(pool, [unsent(made, lease, due_at=NOW, decisions=written([a_step("0")]))], LATER)
    for number in range(1, 60):
        decisions = await held_again(pool, made, a_step(str(number)))

    assert [step.detail for step in decisions] == [str(number) for number in range(10, 60)]


def written(steps: list[Step]) -> str:
    return msgspec.json.encode(steps).decode()


async def test_what_is_held_without_a_time_is_due_for_nobody_until_it_is_let_go(pool: Pool) -> None:
    made, lease, _ = await claimed(pool)
    hold = unsent(made, lease, state=State.SCHEDULED, spent=0, due_at=None, held_by="type:x", outcome=None)

    await settle_unsent(pool, [hold], LATER)

    assert await take(pool, now=NOW + timedelta(days=100_000)) == []
    (row,) = await of_notification(pool, (await delivery(pool, made))["notification_id"], 1)
    assert (row.due_at, row.held_by, row.settled_at) == (None, "type:x", None)


async def test_a_settlement_names_the_groups_in_which_the_next_may_be_released(pool: Pool) -> None:
    lease = new_lease_id()
    held: dict[str, Any] = {"lease": lease, "leased_until": LATER}
    first, second, third, fourth, fifth, sixth = [
        await add_delivery(pool, ordering_key=f"group{number}", **held) for number in range(6)
    ]
    plain = await add_delivery(pool, **held)

    taken = await settle_sent(pool, [sent(first, lease), sent(plain, lease)], LATER)
    others = await settle_unsent(
        pool,
        [
            gone(second, lease),
            # One that is retried blocks those behind it.
            unsent(third, lease),
            # The one before it may have been settled while this was being set aside.
            unsent(fourth, lease, state=State.SCHEDULED, due_at=None, held_by="order"),
            # One that is scheduled for later blocks nobody.
            unsent(fifth, lease, state=State.SCHEDULED, due_at=LATER + SECOND),
            unsent(sixth, lease, state=State.SCHEDULED, due_at=LATER),
        ],
        LATER,
    )

    assert (taken.count, taken.ordering_keys, taken.collapsing) == (2, ["group0"], [])
    assert (others.count, sorted(others.ordering_keys)) == (5, ["group1", "group3", "group4"])
    assert others.collapsing == []


async def test_devices_are_locked_in_the_order_of_their_ids(database_url: str) -> None:
    async with open_pool(database_url, SCHEMA, PoolSettings(), lookups_only=True) as pool:
        devices = [await add_device(pool, f"user{number}") for number in range(20)]
        lease = new_lease_id()
        held: dict[str, Any] = {"lease": lease, "leased_until": LATER}
        made = [await add_delivery(pool, device_id=device_id, **held) for device_id in devices[::-1]]
        async with pool.acquire() as other:
            registering = other.transaction()
            await registering.start()
            await other.execute("select from devices where id = $1 for update", devices[0])
            settling = asyncio.create_task(settle_unsent(pool, [gone(each, lease) for each in made], LATER))
            await found(lambda: waits_for_a_lock(pool))

            # The settlement stands before the first device and holds none of those behind it.
            locked = await other.fetch(
                "select id from devices where id = any($1::uuid[]) for update nowait", devices[1:]
            )
            await registering.commit()

        assert len(locked) == 19
        assert (await settling).count == 20


async def test_workers_that_settle_the_same_devices_crosswise_do_not_lock_each_other_out(
    database_url: str,
) -> None:
    async with open_pool(database_url, SCHEMA, PoolSettings(size=8), lookups_only=True) as pool:
        devices = [await add_device(pool) for _ in range(40)]
        settling = []
        for worker in range(8):
            lease = new_lease_id()
            held: dict[str, Any] = {"lease": lease, "leased_until": LATER}
            order = devices if worker % 2 else devices[::-1]
            made = [await add_delivery(pool, device_id=device_id, **held) for device_id in order]
            settling += [
                settle_sent(pool, [sent(each, lease) for each in made[::2]], LATER),
                settle_unsent(pool, [gone(each, lease) for each in made[1::2]], LATER),
            ]

        assert [settled.count for settled in await asyncio.gather(*settling)] == [20] * 16
        assert await got(pool, *devices) == (160, LATER)
        assert await pool.fetchval("select count(*) from devices where retired_at is null") == 0


async def test_the_deliveries_of_a_notification_are_read_in_the_order_made(pool: Pool) -> None:
    made, lease, device_id = await claimed(pool)
    await settle_sent(pool, [sent(made, lease)], LATER)
    notification_id = (await delivery(pool, made))["notification_id"]
    more = [await add_delivery(pool, notification_id=notification_id) for _ in range(3)]

    rows = await of_notification(pool, notification_id, 3)

    assert [row.id for row in rows] == [made, *more[:2]]
    assert (rows[0].state, rows[0].device_id, rows[0].attempts) == (State.SENT, device_id, 1)
