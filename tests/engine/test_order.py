import random
import time
from collections import defaultdict
from collections.abc import Sequence
from contextlib import AsyncExitStack
from datetime import datetime
from uuid import UUID

from engine.stage import Stage, StubProvider, an_intent
from tocsin.domain.message import Message
from tocsin.domain.outcome import Gone, Outcome, Retry, Sent
from tocsin.engine.answers import Accepted
from waiting import found


class Faulty(StubProvider):
    """Fails a share of what comes, each time anew, and notes what it took by target, in order."""

    def __init__(self, share: float, concurrency: int = 50) -> None:
        super().__init__(concurrency)
        self._share = share
        # Seeded, so that a run can be repeated; it guards nothing.
        self._random = random.Random(20_261)  # noqa: S311
        self.took: defaultdict[str, list[UUID]] = defaultdict(list)
        self.failed = 0

    async def send(self, batch: Sequence[Message], *, now: datetime) -> Sequence[Outcome]:
        outcomes = await super().send(batch, now=now)
        return [self._judged(message, outcome) for message, outcome in zip(batch, outcomes, strict=True)]

    def _judged(self, message: Message, outcome: Outcome) -> Outcome:
        if not isinstance(outcome, Sent):
            return outcome
        if self._random.random() < self._share:
            self.failed += 1
            return Retry("UNAVAILABLE")
        self.took[message.target].append(message.notification_id)
        return outcome


async def accept_in_order(stage: Stage, people: int, each: int, kind: str = "step") -> dict[str, list[UUID]]:
    """Accept as many for each person, in turn, and give what each should get, in order."""
    wanted: dict[str, list[UUID]] = defaultdict(list)
    for turn in range(each):
        users = [f"user{number}" for number in range(people)]
        answers = await stage.acceptor.accept(
            "shop",
            [an_intent(user, type=kind, payload={}, idempotency_key=f"{user}-{turn}") for user in users],
        )
        for user, answer in zip(users, answers, strict=True):
            assert isinstance(answer, Accepted)
            wanted[user].append(answer.notification_id)
    return wanted


async def all_settled(stage: Stage, within: float = 90.0) -> None:
    async def look() -> bool:
        return not await stage.pool.fetchval(
            "select exists (select from deliveries where state in ('scheduled', 'pending', 'retrying'))"
        )

    await found(look, within=within)


async def test_ten_thousand_in_rows_of_a_hundred_arrive_in_order_through_faults(stage: Stage) -> None:
    people, each = 100, 100
    for number in range(people):
        await stage.device(f"user{number}")
    wanted = await accept_in_order(stage, people, each)
    provider = Faulty(0.2)

    began = time.monotonic()
    async with AsyncExitStack() as workers:
        for _ in range(4):
            await workers.enter_async_context(stage.working(provider))
        await all_settled(stage)
    took = time.monotonic() - began
    print(f"{people * each / took:.0f}/s, {took:.1f} s")

    assert provider.took == wanted
    assert await stage.states() == {"sent": people * each}
    assert provider.failed > people * each * 0.15
