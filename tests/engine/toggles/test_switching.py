import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime
from uuid import UUID

import msgspec
import pytest

from tests.engine.stage import Stage, StubProvider, a_provider, an_intent
from tests.rows import add_user
from tests.waiting import found, until
from tocsin.domain.decide import Step
from tocsin.domain.delivery.message import Message
from tocsin.domain.delivery.outcome import Outcome
from tocsin.engine.accept.answers import Accepted
from tocsin.engine.inspect.show import show
from tocsin.store import toggles

STREAM = 400
PEOPLE = 50
PACE = 0.004


class Timed(StubProvider):
    """Takes a moment for each message and notes when each came."""

    def __init__(self) -> None:
        super().__init__(concurrency=8)
        self.came: list[float] = []

    async def send(self, batch: Sequence[Message], *, now: datetime) -> Sequence[Outcome]:
        self.came += [time.monotonic()] * len(batch)
        await asyncio.sleep(PACE)
        return await super().send(batch, now=now)


async def switch(stage: Stage, name: str, *, enabled: bool) -> float:
    """Switch as an operator does and give the moment at which it was done."""
    async with stage.pool.acquire() as connection:
        await toggles.change(
            connection, name, enabled=enabled, reason=None, by="ops", now=datetime.now().astimezone()
        )
    return time.monotonic()


@asynccontextmanager
async def streaming(stage: Stage, provider: StubProvider) -> AsyncIterator[None]:
    """Run two workers on a stream that takes them a while."""
    for number in range(PEOPLE):
        await stage.device(f"user{number}")
    intents = [
        an_intent(f"user{number % PEOPLE}", type="plain", payload={}, idempotency_key=f"k{number}")
        for number in range(STREAM)
    ]
    answers = await stage.acceptor.accept("shop", intents)
    assert all(isinstance(answer, Accepted) for answer in answers)
    async with AsyncExitStack() as stack:
        for _ in range(2):
            await stack.enter_async_context(stage.working(provider))
        yield


async def held_by(stage: Stage, holder: str) -> int:
    count: int = await stage.pool.fetchval("select count(*) from deliveries where held_by = $1", holder)
    return count


async def at_rest(stage: Stage, holder: str) -> bool:
    """Return whether everything that was not sent is held by a toggle, or waits in a lane that is off."""
    states = await stage.states()
    if holder.startswith("provider:"):
        waiting: int = await stage.pool.fetchval(
            "select count(*) from deliveries where state <> 'sent' and lease is null and held_by is null"
        )
        return states["sent"] + waiting == STREAM
    return states["sent"] + await held_by(stage, holder) == STREAM


@pytest.mark.parametrize("name", ["type:plain", "type:plain:push", "channel:push", "provider:fcm"])
async def test_what_is_switched_off_stops_within_a_second_and_loses_nothing(stage: Stage, name: str) -> None:
    provider = Timed()
    async with streaming(stage, provider):
        await until(lambda: len(provider.arrived) >= 40)
        off = await switch(stage, name, enabled=False)
        await found(lambda: at_rest(stage, name))
        stopped = len(provider.arrived)
        assert max(provider.came) < off + 1
        assert stopped < STREAM

        on = await switch(stage, name, enabled=True)
        await until(lambda: len(provider.arrived) > stopped)
        assert provider.came[stopped] < on + 1
        await found(lambda: all_sent(stage))

    assert set(provider.counts().values()) == {1}
    assert len(provider.arrived) == STREAM


async def all_sent(stage: Stage) -> bool:
    return (await stage.states())["sent"] == STREAM


async def test_nothing_leaves_while_it_is_off(stage: Stage) -> None:
    provider = Timed()
    async with streaming(stage, provider):
        await until(lambda: len(provider.arrived) >= 40)
        await switch(stage, "channel:push", enabled=False)
        await found(lambda: at_rest(stage, "channel:push"))
        stopped = len(provider.arrived)
        # Another toggle that changes makes every worker look again at all that is held.
        await switch(stage, "type:other", enabled=False)
        await switch(stage, "type:other", enabled=True)
        await found(lambda: at_rest(stage, "channel:push"))

    assert len(provider.arrived) == stopped


async def test_a_type_that_is_off_does_not_hold_another(stage: Stage) -> None:
    provider = StubProvider()
    await stage.device("ada")
    await switch(stage, "type:plain", enabled=False)
    async with stage.working(provider):
        held = await stage.accept("ada", type="plain", payload={}, idempotency_key="1")
        await found(lambda: held_by(stage, "type:plain"))
        other = await stage.accept("ada", type="urgent", payload={}, idempotency_key="2")
        await stage.settled(other, "sent")

    (row,) = await stage.deliveries(held)
    assert (row["state"], row["attempts"], row["settled_at"]) == ("scheduled", 0, None)


async def test_what_is_off_when_it_is_accepted_is_skipped(stage: Stage) -> None:
    await stage.device("ada")
    await switch(stage, "type:plain", enabled=False)
    async with stage.pool.acquire() as connection:
        await stage.toggles.load(connection)

    notification_id = await stage.accept("ada", type="plain", payload={})

    (row,) = await stage.deliveries(notification_id)
    assert (row["state"], row["reason"]) == ("skipped", "toggle_off")
    await switch(stage, "type:plain", enabled=True)
    provider = StubProvider()
    async with stage.working(provider):
        other = await stage.accept("ada", type="urgent", payload={}, idempotency_key="2")
        await stage.settled(other, "sent")
    assert [message.type for message in provider.arrived] == ["urgent"]


async def test_a_provider_that_is_off_holds_only_what_goes_by_it(stage: Stage) -> None:
    class Other(StubProvider):
        name = "other"

    fcm, other = StubProvider(), Other()
    await stage.device("ada", token="phone")
    await stage.device("ada", token="tablet", provider="other")
    await switch(stage, "provider:fcm", enabled=False)
    async with stage.working(fcm, other):
        acceptor = stage.an_acceptor({"push": ("fcm", "other")})
        (answer,) = await acceptor.accept("shop", [an_intent("ada")])
        assert isinstance(answer, Accepted)
        notification_id = answer.notification_id
        await until(lambda: len(other.arrived) == 1)
        assert not fcm.arrived
        async with stage.pool.acquire() as connection:
            shown = await show(connection, notification_id, stage.clock())
        assert shown is not None
        reasons = {each.provider: each.waiting_for for each in shown.deliveries}
        assert reasons[None] == "provider:fcm is switched off"
        await switch(stage, "provider:fcm", enabled=True)
        await stage.settled(notification_id, "sent")

    assert [message.target for message in fcm.arrived] == ["phone"]
    assert [message.target for message in other.arrived] == ["tablet"]


@pytest.mark.parametrize("name", ["type:plain", "channel:push"])
async def test_a_delivery_tells_that_it_was_held_and_by_what(stage: Stage, name: str) -> None:
    provider = StubProvider()
    await stage.device("ada")
    await switch(stage, name, enabled=False)
    async with stage.working(provider):
        notification_id = await stage.accept("ada", type="plain", payload={})
        await found(lambda: held_by(stage, name))
        await switch(stage, name, enabled=True)
        await stage.settled(notification_id, "sent")

    steps = await way(stage, notification_id)
    held = [step for step in steps if step.result == "hold"]
    assert [(step.rule, step.detail) for step in held] == [("toggle", f"{name} is switched off")]


async def way(stage: Stage, notification_id: UUID) -> list[Step]:
    (row,) = await stage.deliveries(notification_id)
    return msgspec.json.decode(row["decisions"], type=list[Step])


async def test_a_type_switched_on_again_is_released_by_the_channels_that_are_on(stage: Stage) -> None:
    push, mail = StubProvider(), a_provider("smtp")
    stage.acceptor = stage.an_acceptor({"push": ("fcm",), "email": ("smtp",)})
    await stage.device("ada")
    await add_user(stage.pool, "ada", email="ada@example.com")
    await switch(stage, "type:alert", enabled=False)
    notification_id = await stage.accept("ada", type="alert", payload={})
    async with stage.working(push, mail):
        await found(lambda: is_held(stage, "type:alert", 2))
        await switch(stage, "channel:push", enabled=False)
        await switch(stage, "type:alert", enabled=True)
        await until(lambda: bool(mail.arrived))

    states = {row["channel"]: row["state"] for row in await stage.deliveries(notification_id)}
    assert states == {"email": "sent", "push": "scheduled"}
    assert push.arrived == []


async def is_held(stage: Stage, holder: str, count: int) -> bool:
    return await held_by(stage, holder) == count
