from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, ClassVar

from tests.engine.stage import Stage, StubProvider
from tests.waiting import found, until
from tocsin.domain.delivery.message import Limits
from tocsin.domain.delivery.outcome import (
    Defer,
    Delivered,
    Gone,
    NotYet,
    Outcome,
    ReceiptOutcome,
    Rejected,
    Retry,
)

QUARTER = timedelta(minutes=16)


class Ticketing(StubProvider):
    """Takes messages and says later what became of them."""

    name: ClassVar[str] = "expo"
    limits: ClassVar[Limits] = Limits(payload_bytes=4_096, batch=100, ttl_seconds=2_419_200)
    receipts_after: ClassVar[timedelta] = timedelta(minutes=15)
    receipts_kept: ClassVar[timedelta] = timedelta(hours=24)
    receipts_batch: ClassVar[int] = 2

    def __init__(self, **answers: ReceiptOutcome) -> None:
        super().__init__(100)
        self.answers = answers
        self.fault: Outcome | None = None
        self.asked: list[list[str]] = []

    async def receipts(
        self,
        message_ids: Sequence[str],
        *,
        now: datetime,  # noqa: ARG002
    ) -> Sequence[ReceiptOutcome] | Outcome:
        self.asked.append(list(message_ids))
        if self.fault is not None:
            return self.fault
        names = {f"message-{message.delivery_id}": message.target for message in self.arrived}
        return [self.answers.get(names[message_id], Delivered()) for message_id in message_ids]


async def sent(stage: Stage, *people: str) -> dict[str, Any]:
    """Send to some people; the tickets come with the settlement."""
    for person in people:
        await stage.device(person, provider="expo")
    notification_id = await stage.accept(*people, type="plain", payload={})
    await stage.settled(notification_id, "sent")
    return {row["user_id"]: row for row in await stage.deliveries(notification_id)}


async def tickets(stage: Stage) -> int:
    count: int = await stage.pool.fetchval("select count(*) from tickets")
    return count


async def states(stage: Stage) -> dict[str, str]:
    rows = await stage.pool.fetch("select user_id, state from deliveries")
    return dict(map(tuple, rows))


async def become(stage: Stage, **expected: str) -> None:
    async def look() -> bool:
        there = await states(stage)
        return all(there[person] == state for person, state in expected.items())

    await found(look)


async def test_receipts_are_asked_for_after_a_while_and_confirm(stage: Stage) -> None:
    provider = Ticketing()
    async with stage.working(provider):
        rows = await sent(stage, "ada", "bob", "cem")
        assert await tickets(stage) == 3
        assert not provider.asked

        stage.clock.advance(QUARTER)
        await become(stage, ada="delivered", bob="delivered", cem="delivered")

    assert [len(asked) for asked in provider.asked] == [2, 1]
    assert {each for asked in provider.asked for each in asked} == {
        row["provider_message_id"] for row in rows.values()
    }
    assert await tickets(stage) == 0


async def test_a_device_that_a_receipt_calls_gone_is_retired_and_no_other(stage: Stage) -> None:
    provider = Ticketing(ada=Gone("DeviceNotRegistered"))
    async with stage.working(provider):
        await sent(stage, "ada", "bob")
        stage.clock.advance(QUARTER)
        await become(stage, ada="gone", bob="delivered")

    rows = await stage.pool.fetch("select user_id, retired_reason from devices order by user_id")
    assert list(map(tuple, rows)) == [("ada", "gone: DeviceNotRegistered"), ("bob", None)]
    assert await stage.attempts() == [("gone", "DeviceNotRegistered")]


async def test_a_refusal_is_final_and_a_passing_fault_sends_anew(stage: Stage) -> None:
    provider = Ticketing(ada=Rejected("MessageTooBig"), bob=Retry("ExpoError", speaks_against="target"))
    async with stage.working(provider):
        await sent(stage, "ada", "bob")
        stage.clock.advance(QUARTER)
        await become(stage, ada="rejected", bob="retrying")
        provider.answers.clear()
        stage.clock.advance(timedelta(minutes=1))
        await become(stage, bob="sent")
        stage.clock.advance(QUARTER)
        await become(stage, bob="delivered")

    attempts = dict(map(tuple, await stage.pool.fetch("select user_id, attempts from deliveries")))
    assert attempts == {"ada": 1, "bob": 2}


async def test_a_missing_receipt_is_asked_for_again_until_it_is_kept_no_more(stage: Stage) -> None:
    provider = Ticketing(ada=NotYet())
    async with stage.working(provider):
        await sent(stage, "ada")
        stage.clock.advance(QUARTER)
        await until(lambda: len(provider.asked) == 1)

        async def asked_later() -> bool:
            return bool(await stage.pool.fetchval("select lease is null from tickets"))

        await found(asked_later)
        stage.clock.advance(QUARTER)
        await until(lambda: len(provider.asked) == 2)
        await found(asked_later)
        assert await tickets(stage) == 1
        stage.clock.advance(timedelta(hours=24))

        async def given_up() -> bool:
            return await tickets(stage) == 0

        await found(given_up)

    assert await states(stage) == {"ada": "sent"}


async def test_when_receipts_cannot_be_had_they_are_asked_for_later(stage: Stage) -> None:
    provider = Ticketing()
    provider.fault = Defer("TOO_MANY_REQUESTS", timedelta(minutes=3))
    async with stage.working(provider):
        await sent(stage, "ada")
        stage.clock.advance(QUARTER)
        await until(lambda: len(provider.asked) == 1)
        assert await states(stage) == {"ada": "sent"}
        provider.fault = None
        stage.clock.advance(timedelta(minutes=4))
        await become(stage, ada="delivered")
