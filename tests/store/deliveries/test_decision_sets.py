"""Decisions that many sent deliveries have in common."""

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec
import pytest

from tests.rows import NOW, add_delivery, delivery, take
from tests.store.deliveries.settlements import LATER, SECOND, sent, unsent
from tocsin.domain.decide import Step
from tocsin.domain.delivery import decision_sets
from tocsin.domain.delivery.decision_sets import shared_decisions
from tocsin.domain.ids import LeaseId, new_lease_id
from tocsin.store.deliveries.read import of_notification
from tocsin.store.deliveries.settle import SentDelivery, encode_steps, settle_sent, settle_unsent
from tocsin.store.pool import Pool
from tocsin.store.tickets import reopen, take_tickets

MOMENT = NOW + timedelta(microseconds=123_456)


def passed(at: datetime = MOMENT, zone: str = "Europe/Berlin") -> tuple[Step, ...]:
    details = {
        "preference": "'orders' by push: not refused",
        "toggle": "switched on",
        "quiet_hours": f'within 08:00-22:00 {zone} (from the "device") \\ ü',
    }
    return tuple(
        Step(rule=rule, result="pass", detail=detail, at=at)  # type: ignore[arg-type]
        for rule, detail in details.items()
    )


def sent_with(delivery_id: UUID, lease: LeaseId, steps: tuple[Step, ...], **changes: Any) -> SentDelivery:
    decided = shared_decisions(steps)
    assert decided is not None
    return msgspec.structs.replace(sent(delivery_id, lease), decided=decided, **changes)


async def claimed(pool: Pool, count: int = 1) -> tuple[list[UUID], LeaseId]:
    made = [await add_delivery(pool) for _ in range(count)]
    lease = new_lease_id()
    await take(pool, lease=lease)
    return made, lease


async def shown(pool: Pool, delivery_id: UUID) -> list[Step]:
    (row,) = await of_notification(pool, (await delivery(pool, delivery_id))["notification_id"], 1)
    return row.decisions


async def sets(pool: Pool) -> int:
    count: int = await pool.fetchval("select count(*) from decision_sets")
    return count


async def test_what_many_passed_is_stored_once_and_shown_with_the_time_of_each(pool: Pool) -> None:
    made, lease = await claimed(pool, 3)
    moments = [MOMENT, MOMENT + SECOND, MOMENT]

    settlements = [sent_with(each, lease, passed(at)) for each, at in zip(made, moments, strict=True)]
    await settle_sent(pool, settlements, LATER)

    assert [await shown(pool, each) for each in made] == [list(passed(at)) for at in moments]
    assert [(await delivery(pool, each))["decisions"] for each in made] == [None] * 3
    assert await sets(pool) == 1


class Recorder:
    """A connection that keeps the arguments of its last statement."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self.arguments: tuple[Any, ...] = ()

    async def fetchrow(self, statement: str, *arguments: Any) -> Any:
        self.arguments = arguments
        return await self._pool.fetchrow(statement, *arguments)


async def test_what_was_decided_alike_one_by_one_is_given_once(pool: Pool) -> None:
    made, lease = await claimed(pool, 3)
    # Deliveries that a limit counts are decided apart: equal steps, but none that are the same object.
    settlements = [sent_with(each, lease, passed()) for each in made]
    assert len({id(each.decided) for each in settlements}) == 3

    recorder = Recorder(pool)
    await settle_sent(recorder, settlements, LATER)

    positions, leases = recorder.arguments[5:7]
    assert positions == [1, 1, 1]
    assert leases == [lease]
    assert [await shown(pool, each) for each in made] == [list(passed())] * 3


async def test_sets_that_are_there_already_are_used_again(pool: Pool) -> None:
    for zone in ("UTC", "Europe/Berlin", "UTC"):
        made, lease = await claimed(pool)
        await settle_sent(pool, [sent_with(made[0], lease, passed(zone=zone))], LATER)
        assert await shown(pool, made[0]) == list(passed(zone=zone))

    assert await sets(pool) == 2


async def test_decisions_from_before_are_kept_with_those_of_the_set(pool: Pool) -> None:
    (made,), lease = await claimed(pool)
    held = Step(rule="quiet_hours", result="hold", detail="night", at=NOW, until=NOW + SECOND)
    waiting = unsent(made, lease, due_at=NOW, decisions=encode_steps([held]))
    await settle_unsent(pool, [waiting], LATER)
    again = new_lease_id()
    await take(pool, lease=again)

    await settle_sent(pool, [sent_with(made, again, passed())], LATER)

    assert await shown(pool, made) == [held, *passed()]
    assert (await delivery(pool, made))["decision_set"] is None


async def test_the_same_decisions_as_in_the_attempt_before_are_counted(pool: Pool) -> None:
    (made,), lease = await claimed(pool)
    await settle_unsent(pool, [unsent(made, lease, due_at=NOW, decisions=encode_steps(passed(NOW)))], LATER)
    again = new_lease_id()
    await take(pool, lease=again)

    await settle_sent(pool, [sent_with(made, again, passed())], LATER)

    assert await shown(pool, made) == [msgspec.structs.replace(step, count=2) for step in passed()]


async def test_a_delivery_whose_receipt_reports_a_failure_keeps_its_decisions(pool: Pool) -> None:
    (made,), lease = await claimed(pool)
    await settle_sent(pool, [sent_with(made, lease, passed(), ask_at=NOW)], NOW)
    async with pool.acquire() as connection:
        asking = new_lease_id()
        await take_tickets(connection, "fcm", lease=asking, now=LATER, until=LATER + SECOND, limit=1)
        assert await reopen(connection, [made], asking, LATER + SECOND) == {made}
    assert await shown(pool, made) == list(passed())

    (held,) = passed(LATER)[:1]
    retry = unsent(made, asking, decisions=encode_steps([held]))
    assert (await settle_unsent(pool, [retry], LATER)).count == 1

    assert await shown(pool, made) == [*passed(), held]


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param((), id="none"),
        pytest.param((*passed(), Step(rule="toggle", result="hold", detail="off", at=MOMENT)), id="a hold"),
        pytest.param(passed(zone="UTC (from the default; unknown: Adas/Home)"), id="an unknown zone"),
        pytest.param(passed(zone="UTC; the person's own cannot be read: Ada"), id="an unreadable window"),
        pytest.param((*passed(), *passed(MOMENT + SECOND)), id="two moments"),
        pytest.param(
            (*passed(), Step(rule="limit", result="pass", detail="1 of 9", at=MOMENT)), id="a count"
        ),
    ],
)
def test_other_decisions_are_stored_with_their_delivery(steps: tuple[Step, ...]) -> None:
    assert shared_decisions(steps) is None


def test_a_process_makes_a_bounded_number_of_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decision_sets, "_sets", {})
    made = [shared_decisions(passed(zone=str(number))) for number in range(decision_sets.MOST_SETS + 5)]

    assert made[-5:] == [None] * 5
    assert None not in made[:-5]
    assert shared_decisions(passed(zone="0")) == made[0]
