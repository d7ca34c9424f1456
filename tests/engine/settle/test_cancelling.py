import asyncio
from contextlib import AsyncExitStack
from datetime import timedelta
from uuid import UUID

from tests.engine.stage import Stage, StubProvider, an_intent
from tests.waiting import found, until
from tocsin.domain.delivery.outcome import Retry
from tocsin.engine.accept.answers import Accepted
from tocsin.store.deliveries.holds import cancel, reschedule

RACES = 1_000
HOUR = timedelta(hours=1)


async def accept_many(stage: Stage, count: int) -> list[UUID]:
    for number in range(20):
        await stage.device(f"user{number}")
    intents = [
        an_intent(f"user{number % 20}", type="plain", payload={}, idempotency_key=f"k{number}")
        for number in range(count)
    ]
    answers = await stage.acceptor.accept("shop", intents)
    return [answer.notification_id for answer in answers if isinstance(answer, Accepted)]


async def all_settled(stage: Stage) -> bool:
    waiting: int = await stage.pool.fetchval("select count(*) from deliveries where settled_at is null")
    return waiting == 0


async def test_what_races_with_its_cancelling_is_sent_or_cancelled_never_both_never_neither(
    stage: Stage,
) -> None:
    provider = StubProvider(concurrency=20)
    accepted = await accept_many(stage, RACES)
    # From the other end, so that sending and taking back meet in the middle.
    backwards = accepted[::-1]
    taken_back: set[UUID] = set()

    async def take_back(some: list[UUID]) -> None:
        for notification_id in some:
            if await cancel(stage.pool, notification_id, stage.clock()):
                taken_back.add(notification_id)

    async with AsyncExitStack() as stack:
        for _ in range(2):
            await stack.enter_async_context(stage.working(provider))
        await asyncio.gather(*(take_back(backwards[start::4]) for start in range(4)))
        await found(lambda: all_settled(stage))

    sent = {message.notification_id for message in provider.arrived}
    assert sent | taken_back == set(accepted)
    assert not sent & taken_back
    assert set(provider.counts().values()) == {1}
    assert await stage.states() == {"sent": len(sent), "cancelled": len(taken_back)}
    # Otherwise nothing raced.
    assert len(sent) > 50
    assert len(taken_back) > 50


async def test_what_was_under_way_when_it_was_taken_back_is_not_tried_again(stage: Stage) -> None:
    provider = StubProvider()
    await stage.device("ada")
    provider.script("ada", Retry("UNAVAILABLE"))
    provider.hold()
    async with stage.working(provider):
        notification_id = await stage.accept("ada", type="plain", payload={})
        await until(lambda: len(provider.arrived) == 1)
        assert await cancel(stage.pool, notification_id, stage.clock()) == 0
        provider.let_go.set()
        await stage.settled(notification_id, "retrying")
        stage.clock.advance(timedelta(seconds=12))
        (row,) = await stage.settled(notification_id, "cancelled")

    assert (row["attempts"], row["reason"]) == (1, None)
    assert len(provider.arrived) == 1


async def test_what_waits_for_a_retry_can_be_taken_back(stage: Stage) -> None:
    provider = StubProvider()
    await stage.device("ada")
    provider.script("ada", Retry("UNAVAILABLE"))
    async with stage.working(provider):
        notification_id = await stage.accept("ada", type="plain", payload={})
        await stage.settled(notification_id, "retrying")
        assert await cancel(stage.pool, notification_id, stage.clock()) == 1

    assert await stage.states() == {"cancelled": 1}


async def test_what_is_moved_leaves_at_its_new_time_and_not_before(stage: Stage) -> None:
    provider = StubProvider()
    await stage.device("ada")
    start = stage.clock()
    notification_id = await stage.accept(
        "ada", type="fleeting", payload={}, send_at=start + HOUR, ttl_seconds=600
    )
    assert await reschedule(stage.pool, notification_id, start + 5 * HOUR, stage.clock()) == 1
    async with stage.working(provider):
        stage.clock.advance(2 * HOUR)
        marker = await stage.accept("ada", idempotency_key="marker")
        await stage.settled(marker, "sent")
        assert len(provider.arrived) == 1
        stage.clock.advance(3 * HOUR)
        await stage.settled(notification_id, "sent")
