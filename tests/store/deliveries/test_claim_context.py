"""What a claim says of other deliveries: those before it, those after it, and the channel that failed."""

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from tests.rows import NEVER, NOW, add_delivery, add_held, add_notification, take
from tocsin.domain.delivery.states import WAITING, State
from tocsin.domain.ids import uuid7
from tocsin.store.deliveries.context import FailedChannel, NewerMessage, order_blockers
from tocsin.store.pool import Pool

SECOND = timedelta(seconds=1)
WALL = datetime(2026, 3, 2, 9)  # noqa: DTZ001 - a wall time has no zone
PHONE, TABLET = uuid7(), uuid7()


async def blockers(pool: Pool, *, now: datetime = NOW) -> set[UUID | None]:
    """Claim the last of the group and return what blocks it; one accepted later would be told the same."""
    made = await add_delivery(pool, ordering_key="group", accept_order=10, due_at=now, lane="last")
    async with pool.acquire() as connection:
        await pool.execute("update deliveries set state = 'sent' where id = $1", made)
        by_key = await order_blockers(connection, "group", now)
        await pool.execute("update deliveries set state = 'pending' where id = $1", made)
    (taken,) = await take(pool, now=now, lane="last")
    assert (taken.id, taken.ordering_key) == (made, "group")
    assert set(taken.order_blockers) == by_key
    return by_key


@pytest.mark.parametrize("state", sorted(State))
async def test_an_earlier_one_that_is_due_blocks_until_it_is_settled(pool: Pool, state: State) -> None:
    await add_delivery(pool, ordering_key="group", accept_order=1, state=state, reason="r", device_id=PHONE)

    assert await blockers(pool) == ({PHONE} if state in WAITING else set())


@pytest.mark.parametrize(
    ("earlier", "blocks"),
    [
        ({"state": "scheduled", "due_at": NOW}, True),
        ({"state": "scheduled", "due_at": NOW + SECOND}, False),
        ({"state": "pending", "due_at": NOW + SECOND}, True),
        ({"state": "retrying", "due_at": NOW + SECOND, "attempts": 1}, True),
        ({"state": "pending", "lease": UUID(int=1), "leased_until": NOW + SECOND}, True),
        ({"state": "scheduled", "due_at": NEVER, "held_by": "order"}, True),
        ({"state": "scheduled", "due_at": NEVER, "held_by": "host:webhook/a.example"}, True),
        ({"state": "retrying", "due_at": NEVER, "held_by": "host:webhook/a.example"}, True),
        ({"state": "scheduled", "due_at": NEVER, "held_by": "type:new_customer"}, False),
        ({"state": "retrying", "due_at": NEVER, "held_by": "type:new_customer/push"}, False),
        ({"state": "scheduled", "due_at": NEVER, "held_by": "channel:push"}, False),
        ({"state": "scheduled", "due_at": NEVER, "held_by": "provider:fcm"}, False),
        ({"state": "scheduled", "due_at": NEVER, "held_by": "digest"}, False),
        ({"state": "expired"}, False),
        ({"state": "pending", "lane": "apns"}, True),
        ({"state": "pending", "ordering_key": "other group"}, False),
        ({"state": "pending", "ordering_key": None}, False),
    ],
    ids=repr,
)
async def test_only_what_is_about_to_be_sent_blocks(
    pool: Pool, earlier: dict[str, Any], *, blocks: bool
) -> None:
    row: dict[str, Any] = {"ordering_key": "group", "accept_order": 1, "device_id": PHONE}
    await add_delivery(pool, **row | earlier)

    assert await blockers(pool) == ({PHONE} if blocks else set())


async def test_every_device_that_something_waits_for_is_named(pool: Pool) -> None:
    group: dict[str, Any] = {"ordering_key": "group"}
    await add_delivery(pool, accept_order=1, device_id=PHONE, **group)
    await add_delivery(pool, accept_order=1, device_id=TABLET, state="retrying", **group)
    await add_held(pool, "order", accept_order=2, device_id=TABLET, **group)

    assert await blockers(pool) == {PHONE, TABLET}


async def test_one_without_a_device_is_named_by_none(pool: Pool) -> None:
    await add_delivery(pool, accept_order=1, ordering_key="group", device_id=PHONE)
    await add_delivery(pool, accept_order=2, ordering_key="group")

    assert await blockers(pool) == {PHONE, None}


async def test_later_ones_and_siblings_of_the_same_acceptance_do_not_block(pool: Pool) -> None:
    for accept_order, device_id in [(5, PHONE), (5, TABLET), (6, PHONE), (7, None)]:
        await add_delivery(
            pool,
            lane=f"lane{accept_order}",
            ordering_key="group",
            accept_order=accept_order,
            device_id=device_id,
        )

    assert [each.order_blockers for each in await take(pool, lane="lane5")] == [[], []]
    (behind,) = await take(pool, lane="lane6")
    assert set(behind.order_blockers) == {PHONE, TABLET}


async def test_the_order_is_that_of_acceptance_and_not_of_ids(pool: Pool) -> None:
    second = await add_delivery(pool, ordering_key="group", accept_order=2, device_id=PHONE)
    first = await add_delivery(pool, ordering_key="group", accept_order=1, device_id=TABLET)

    assert {each.id: each.order_blockers for each in await take(pool)} == {first: [], second: [TABLET]}


async def test_those_of_one_notification_do_not_stand_in_each_others_way(pool: Pool) -> None:
    notification_id = await add_notification(pool)
    same: dict[str, Any] = {"ordering_key": "group", "collapse_key": "slot", "accept_order": 1}
    for device_id in (PHONE, TABLET):
        await add_delivery(pool, notification_id=notification_id, device_id=device_id, **same)

    assert [(each.order_blockers, each.newer) for each in await take(pool)] == [([], None)] * 2


async def newer_than_the_first(pool: Pool, **changes: Any) -> NewerMessage | None:
    await add_delivery(pool, collapse_key="slot", accept_order=1, lane="first", **changes)
    (taken,) = await take(pool, lane="first")
    return taken.newer


@pytest.mark.parametrize("state", sorted(State))
async def test_a_newer_one_with_the_same_collapse_key_is_named_while_it_waits(
    pool: Pool, state: State
) -> None:
    newer = await add_notification(
        pool, version=3, accepted_at=NOW - SECOND, expires_at=NOW + SECOND, send_at_local=WALL
    )
    await add_delivery(
        pool, notification_id=newer, collapse_key="slot", accept_order=2, state=state, reason="r"
    )

    expected = NewerMessage(version=3, accepted_at=NOW - SECOND, expires_at=NOW + SECOND, send_at_local=WALL)
    assert await newer_than_the_first(pool) == (expected if state in WAITING else None)


@pytest.mark.parametrize(
    "newer",
    [
        {"due_at": NOW + SECOND},
        {"state": "scheduled", "due_at": NOW + SECOND},
        {"state": "retrying", "due_at": NOW + SECOND},
        {"due_at": NEVER, "held_by": "type:new_customer"},
        {"due_at": NEVER, "held_by": "order"},
        {"due_at": NEVER, "held_by": "digest"},
        {"collapse_key": "another slot"},
        {"collapse_key": None},
        {"accept_order": 0},
        {"accept_order": 1},
        {"user_id": "bob"},
        {"address": "ada@example.com"},
    ],
    ids=repr,
)
async def test_only_a_later_one_that_is_due_replaces_it(pool: Pool, newer: dict[str, Any]) -> None:
    row: dict[str, Any] = {"collapse_key": "slot", "accept_order": 2}
    await add_delivery(pool, **row | newer)

    assert await newer_than_the_first(pool) is None


@pytest.mark.parametrize(
    "own", [{"reserved": True}, {"channel": "email", "fallback_for": "push"}], ids=["reserved", "failover"]
)
async def test_what_has_its_place_or_stands_in_for_another_is_replaced_only_by_what_was_sent(
    pool: Pool, own: dict[str, Any]
) -> None:
    await add_delivery(pool, collapse_key="slot", accept_order=2)

    assert await newer_than_the_first(pool, **own) is None


async def test_one_that_was_cancelled_replaces_nothing(pool: Pool) -> None:
    cancelled = await add_notification(pool, cancelled_at=NOW)
    await add_delivery(pool, notification_id=cancelled, collapse_key="slot", accept_order=2)

    assert await newer_than_the_first(pool) is None


async def test_of_several_newer_ones_the_newest_that_could_be_sent_is_named(pool: Pool) -> None:
    for accept_order, changes in [(2, {}), (3, {}), (4, {"cancelled_at": NOW})]:
        notification_id = await add_notification(pool, version=accept_order, **changes)
        await add_delivery(
            pool, notification_id=notification_id, collapse_key="slot", accept_order=accept_order
        )
    await add_delivery(pool, collapse_key="slot", accept_order=5, due_at=NOW + SECOND)

    newer = await newer_than_the_first(pool)

    assert newer is not None
    assert newer.version == 3


async def failed_channel(pool: Pool, *first: dict[str, Any]) -> FailedChannel | None:
    """Claim a mail that stands in for pushes of the same notification."""
    notification_id = await add_notification(pool)
    for changes in first:
        await add_delivery(pool, **{"notification_id": notification_id} | changes)
    await add_delivery(
        pool, notification_id=notification_id, channel="email", lane="smtp", fallback_for="push"
    )
    (taken,) = await take(pool, lane="smtp")
    return taken.failed_channel


@pytest.mark.parametrize("state", sorted(State))
async def test_a_failover_is_told_whether_the_first_channel_reached_the_person(
    pool: Pool, state: State
) -> None:
    failed = {"state": "dead"}

    found = await failed_channel(pool, failed, {"state": state, "reason": "r", "due_at": NOW}, failed)

    assert found == FailedChannel(
        confirmed=state in {State.SENT, State.DELIVERED},
        awaited_at=NOW if state == State.SCHEDULED else None,
    )


async def test_a_failover_waits_for_the_last_of_those_scheduled_but_not_for_one_without_a_time(
    pool: Pool,
) -> None:
    scheduled = [
        {"state": "scheduled", "due_at": due_at} for due_at in (NOW + SECOND, NOW + 2 * SECOND, NEVER)
    ]

    assert await failed_channel(pool, *scheduled) == FailedChannel(
        confirmed=False, awaited_at=NOW + 2 * SECOND
    )


async def test_what_was_sent_to_others_or_otherwise_is_no_reason_to_keep_a_failover_back(pool: Pool) -> None:
    other = await add_notification(pool)

    found = await failed_channel(
        pool,
        {"state": "sent", "user_id": "bob"},
        {"state": "sent", "channel": "webhook"},
        {"state": "sent", "notification_id": other},
    )

    assert found == FailedChannel(confirmed=False)
