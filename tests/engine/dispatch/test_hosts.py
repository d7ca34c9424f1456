"""A host that hangs holds up no other host of its lane."""

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from tests.engine.stage import Stage, StubProvider, an_intent
from tests.rows import NEVER, add_waiting
from tests.waiting import found, until
from tocsin.domain.delivery.message import ManyHosts, Message
from tocsin.domain.delivery.outcome import Outcome, Sent
from tocsin.engine.accept.answers import Accepted
from tocsin.engine.settle.release import RELEASED_UNSEEN, Releaser


class Hosts(StubProvider):
    """Reaches targets on hosts of their own; `hangs` of them answer once it is set."""

    name = "webhook"
    concurrency_per_host = 2

    def __init__(self) -> None:
        super().__init__(concurrency=8)
        self.answers = asyncio.Event()
        self.most_at_slow = self._at_slow = 0

    def host_of(self, target: str) -> str:
        return target.split("/")[2]

    async def send(self, batch: Sequence[Message], *, now: datetime) -> Sequence[Outcome]:
        if "slow" not in batch[0].target:
            return await super().send(batch, now=now)
        self._at_slow += 1
        self.most_at_slow = max(self.most_at_slow, self._at_slow)
        await self.answers.wait()
        self._at_slow -= 1
        self.arrived.extend(batch)
        return [Sent("slow")]


async def post(stage: Stage, user: str, count: int) -> list[Any]:
    intents = [
        an_intent(user, type="hook_only", payload={}, idempotency_key=f"{user}{n}") for n in range(count)
    ]
    answers = await stage.an_acceptor({"webhook": ("webhook",)}).accept("shop", intents)
    return [answer.notification_id for answer in answers if isinstance(answer, Accepted)]


async def test_a_host_that_hangs_keeps_to_its_share_of_the_lane(stage: Stage) -> None:
    provider = Hosts()
    assert isinstance(provider, ManyHosts)
    await stage.device("ada", provider="webhook", token="https://slow.example/hook")
    await stage.device("bob", provider="webhook", token="https://quick.example/hook")
    async with stage.working(provider):
        slow = await post(stage, "ada", 40)
        held = await found(lambda: stage.pool.fetch("select held_by from deliveries where held_by <> ''"))
        for notification_id in await post(stage, "bob", 20):
            await stage.settled(notification_id, "sent")
        assert provider.most_at_slow == 2
        assert {row["held_by"] for row in held} == {"host:webhook/slow.example"}

        provider.answers.set()
        for notification_id in slow:
            await stage.settled(notification_id, "sent")

    assert provider.most_at_slow == 2
    assert set(provider.counts().values()) == {1}
    assert len(provider.arrived) == 60


async def test_what_was_held_for_a_crowded_host_follows_as_soon_as_there_is_room(stage: Stage) -> None:
    provider = Hosts()
    provider.answers.set()
    await stage.device("ada", provider="webhook", token="https://slow.example/hook")
    async with stage.working(provider):
        started = asyncio.get_running_loop().time()
        await post(stage, "ada", 30)
        await until(lambda: len(provider.arrived) == 30)

    assert asyncio.get_running_loop().time() - started < 10
    assert set(provider.counts().values()) == {1}


async def test_a_worker_that_does_not_send_to_a_host_releases_a_bounded_number_at_once(stage: Stage) -> None:
    """It cannot see the room there: the rest stays held until that is used."""
    held = 2 * RELEASED_UNSEEN + 50
    await add_waiting(stage.pool, held, lane="webhook", due_at=NEVER, held_by="host:webhook/a.example")
    worker = await stage.a_worker(StubProvider())
    (releaser,) = [duty for duty in worker._duties if isinstance(duty, Releaser)]
    left = []
    for _ in range(3):
        await releaser._sweep()
        left.append(await stage.pool.fetchval("select count(*) from deliveries where held_by is not null"))

    assert left == [held - RELEASED_UNSEEN, held - 2 * RELEASED_UNSEEN, 0]


async def test_a_host_that_another_worker_released_for_is_forgotten(stage: Stage) -> None:
    """Hosts are strangers': those that were ever crowded are too many to remember."""
    worker = await stage.a_worker(Hosts())
    (releaser,) = [duty for duty in worker._duties if isinstance(duty, Releaser)]
    crowded = worker._breakers.crowded
    now = stage.clock()
    held = "webhook/held.example"
    await add_waiting(stage.pool, 1, lane="webhook", due_at=NEVER, held_by=f"host:{held}")
    # The host that still holds something has no room.
    worker._breakers.count_room("webhook", lambda _: 0)
    crowded.update({"webhook/gone.example": now, held: now})
    await releaser._sweep()
    assert set(crowded) == {"webhook/gone.example", held}

    stage.clock.advance(timedelta(minutes=2))
    await releaser._sweep()

    assert set(crowded) == {held}
