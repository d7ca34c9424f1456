"""Cancelling by query while workers send: each delivery is sent or cancelled, never both, never neither."""

from tests.engine.stage import Stage, StubProvider, an_intent
from tests.waiting import found
from tocsin.engine.settle.cancelling import cancel_by_query
from tocsin.wire.cancelling import CancelFilter, CancelledByQuery, CancelRequest

COUNT = 600


async def test_a_campaign_that_is_being_sent_is_stopped_where_it_stands(stage: Stage) -> None:
    for number in range(20):
        await stage.device(f"user{number}")
    intents = [
        an_intent(f"user{number % 20}", type="plain", payload={}, idempotency_key=f"k{number}")
        for number in range(COUNT)
    ]
    provider = StubProvider(concurrency=10)
    await stage.acceptor.accept("shop", intents)

    async def stop() -> CancelledByQuery:
        async with stage.pool.acquire() as connection:
            request = CancelRequest(filter=CancelFilter(type="plain"))
            return await cancel_by_query(connection, request, "ada", stage.clock())

    async with stage.working(provider), stage.working(provider):
        await found(lambda: _arrived(provider, 100))
        stopped = await stop()
        await found(lambda: _settled(stage))

    states = await stage.states()
    sent = len(provider.arrived)
    assert set(provider.counts().values()) == {1}
    assert states == {"sent": sent, "cancelled": COUNT - sent}
    assert states["cancelled"] >= stopped.cancelled > 0
    assert stopped.in_flight > 0


async def _arrived(provider: StubProvider, count: int) -> bool:
    return len(provider.arrived) >= count


async def _settled(stage: Stage) -> bool:
    waiting: int = await stage.pool.fetchval("select count(*) from deliveries where settled_at is null")
    return waiting == 0
