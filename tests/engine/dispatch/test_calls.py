"""A provider that answers message by message: none of a batch waits for another, or fails with it."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from datetime import datetime
from typing import NoReturn
from uuid import UUID

import pytest

from tests.engine.stage import Stage, StubProvider
from tests.waiting import until
from tocsin.domain.delivery.message import Message, SendsEach
from tocsin.domain.delivery.outcome import Outcome, Sent
from tocsin.telemetry.tracing import tracing

PEOPLE = ("ada", "bob", "eve")


class OneByOne(StubProvider):
    """Answers each message of a batch when it is told to, and then raises or ends."""

    def __init__(self, *, failure: BaseException | None = None) -> None:
        super().__init__()
        self.batches: list[Sequence[Message]] = []
        self.failure = failure
        self.answer: asyncio.Queue[str | None] = asyncio.Queue()
        self.is_closed = asyncio.Event()

    async def send_each(
        self, batch: Sequence[Message], *, now: datetime
    ) -> AsyncGenerator[Sequence[tuple[int, Outcome]], None]:
        del now
        self.batches.append(batch)
        self.arrived.extend(batch)
        places = {message.target: place for place, message in enumerate(batch)}
        try:
            while target := await self.answer.get():
                yield [(places.pop(target), Sent(f"message for {target}"))]
                if not places:
                    return
            if self.failure is not None:
                raise self.failure
        finally:
            self.is_closed.set()


async def accepted_together(stage: Stage) -> dict[str, UUID]:
    """Accept a message for each person before a worker claims them, and return the notifications."""
    for person in PEOPLE:
        await stage.device(person)
    return {
        person: await stage.accept(person, type="plain", payload={}, idempotency_key=person)
        for person in PEOPLE
    }


async def test_a_batch_is_one_call_and_each_message_is_settled_when_it_is_answered(stage: Stage) -> None:
    provider = OneByOne()
    assert isinstance(provider, SendsEach)
    accepted = await accepted_together(stage)
    async with stage.working(provider):
        provider.answer.put_nowait("bob")
        await stage.settled(accepted["bob"], "sent")

        states = await stage.pool.fetch("select state from deliveries where state <> 'sent'")

        assert [row["state"] for row in states] == ["pending", "pending"]
        provider.answer.put_nowait("eve")
        provider.answer.put_nowait("ada")
        await stage.settled(accepted["ada"], "sent")
        await stage.settled(accepted["eve"], "sent")
    assert [len(batch) for batch in provider.batches] == [3]


async def test_what_a_provider_raises_charges_only_the_messages_without_an_answer(stage: Stage) -> None:
    provider = OneByOne(failure=LookupError("token-of-ada"))
    accepted = await accepted_together(stage)
    async with stage.working(provider):
        provider.answer.put_nowait("bob")
        provider.answer.put_nowait(None)
        await stage.settled(accepted["bob"], "sent")
        for person in ("ada", "eve"):
            await stage.settled(accepted[person], "retrying")

    failed = await stage.pool.fetch("select outcome, code, detail from attempts")
    assert [tuple(row) for row in failed] == [("retry", "provider_failed", "LookupError")] * 2


async def test_a_cancellation_from_within_a_provider_is_an_outcome(stage: Stage) -> None:
    provider = OneByOne(failure=asyncio.CancelledError())
    accepted = await accepted_together(stage)
    async with stage.working(provider):
        provider.answer.put_nowait(None)
        for person in PEOPLE:
            await stage.settled(accepted[person], "retrying")


async def test_a_message_that_a_provider_leaves_out_is_tried_again(stage: Stage) -> None:
    provider = OneByOne()
    accepted = await accepted_together(stage)
    async with stage.working(provider):
        provider.answer.put_nowait("ada")
        provider.answer.put_nowait(None)
        await stage.settled(accepted["ada"], "sent")
        await stage.settled(accepted["bob"], "retrying")

    assert {row["detail"] for row in await stage.pool.fetch("select detail from attempts")} == {
        "RuntimeError"
    }


async def test_a_worker_that_is_killed_closes_the_call(stage: Stage) -> None:
    provider = OneByOne()
    await accepted_together(stage)
    async with stage.working(provider):
        await until(lambda: bool(provider.batches))
        for task in asyncio.all_tasks():
            if "Sender._send" in repr(task):
                task.cancel()
        await asyncio.wait_for(provider.is_closed.wait(), 5)


async def test_what_cannot_be_traced_is_sent_all_the_same(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider = OneByOne()
    accepted = await accepted_together(stage)
    monkeypatch.setattr(tracing, "tracer", FailingTracer())
    async with stage.working(provider):
        for person in PEOPLE:
            provider.answer.put_nowait(person)
        for person in PEOPLE:
            await stage.settled(accepted[person], "sent")


class FailingTracer:
    """A tracer whose sampler or processor raises."""

    def start_send(self, *_: object) -> NoReturn:
        raise LookupError("no sampler")
