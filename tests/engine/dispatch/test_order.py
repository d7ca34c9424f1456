import random
from collections import defaultdict
from collections.abc import Sequence
from contextlib import AsyncExitStack
from datetime import datetime, timedelta
from uuid import UUID

import pytest

from tests.engine.stage import Stage, StubProvider, a_provider, an_intent
from tests.waiting import found, until
from tocsin.domain.delivery.message import Message
from tocsin.domain.delivery.outcome import Defer, Gone, Outcome, Retry, Sent
from tocsin.engine.accept.answers import Accepted
from tocsin.store import toggles
from tocsin.store.deliveries.holds import cancel

LONGEST = 240.0
"""Ten thousand take twenty seconds; on a machine that others use as well, as many times as they are."""


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


async def all_settled(stage: Stage, within: float = LONGEST) -> None:
    async def look() -> bool:
        return not await stage.pool.fetchval(
            "select exists (select from deliveries where state in ('scheduled', 'pending', 'retrying'))"
        )

    await found(look, within=within)


async def work(stage: Stage, provider: StubProvider, workers: int = 4) -> None:
    """Let some workers do all there is to do."""
    async with AsyncExitStack() as stack:
        for _ in range(workers):
            await stack.enter_async_context(stage.working(provider))
        await all_settled(stage)


@pytest.mark.timeout(LONGEST + 60)
async def test_ten_thousand_in_rows_of_a_hundred_arrive_in_order_through_faults(stage: Stage) -> None:
    people, each = 100, 100
    for number in range(people):
        await stage.device(f"user{number}")
    wanted = await accept_in_order(stage, people, each)
    provider = Faulty(0.2)

    await work(stage, provider)

    assert provider.took == wanted
    assert await stage.states() == {"sent": people * each}
    assert provider.failed > people * each * 0.15


async def test_each_of_two_devices_gets_its_row_in_order(stage: Stage) -> None:
    people, each = 10, 20
    for number in range(people):
        await stage.device(f"user{number}", token=f"phone{number}")
        await stage.device(f"user{number}", token=f"tablet{number}")
    wanted = await accept_in_order(stage, people, each)
    provider = Faulty(0.2)

    await work(stage, provider)

    for number in range(people):
        assert provider.took[f"phone{number}"] == wanted[f"user{number}"]
        assert provider.took[f"tablet{number}"] == wanted[f"user{number}"]
    assert await stage.states() == {"sent": people * each * 2}


async def test_a_device_that_has_to_wait_does_not_hold_up_the_other(stage: Stage) -> None:
    await stage.device("user0", token="phone")
    await stage.device("user0", token="tablet")
    (wanted,) = (await accept_in_order(stage, 1, 3)).values()
    provider = Faulty(0.0)
    provider.script("tablet", Defer("SLOW", timedelta(hours=1), pauses=False))
    async with stage.working(provider):
        await until(lambda: len(provider.took["phone"]) == 3)
        assert [message.target for message in provider.arrived].count("tablet") == 1
        assert not provider.took["tablet"]
        await found(lambda: settled(stage, 3))
        stage.clock.advance(timedelta(hours=2))
        await all_settled(stage)

    assert provider.took == {"phone": wanted, "tablet": wanted}


async def test_a_provider_that_is_down_does_not_hold_up_the_other_devices(stage: Stage) -> None:
    await stage.device("user0", token="phone")
    await stage.device("user0", token="iphone", provider="apns")
    down, up = Faulty(0.0), a_provider("apns")
    down.script("phone", Defer("QUOTA", timedelta(hours=1)))
    async with stage.working(down, up):
        (wanted,) = (await accept_in_order(stage, 1, 3)).values()
        await until(lambda: len(up.arrived) == 3)
        assert len(down.arrived) == 1
        await found(lambda: settled(stage, 3))
        stage.clock.advance(timedelta(hours=2))
        await all_settled(stage)

    assert [message.notification_id for message in up.arrived] == wanted
    assert down.took["phone"] == wanted


async def test_a_dead_one_lets_the_next_go(stage: Stage) -> None:
    await stage.device("user0")
    (wanted,) = (await accept_in_order(stage, 1, 4, "brittle_step")).values()
    provider = Faulty(0.0)
    provider.script("user0", Sent("1"), Retry("UNAVAILABLE"), Retry("UNAVAILABLE"))

    await work(stage, provider)

    assert provider.took["user0"] == [wanted[0], *wanted[2:]]
    assert await stage.states() == {"sent": 3, "dead": 1}


async def test_a_device_that_is_gone_lets_the_next_go_to_the_other(stage: Stage) -> None:
    await stage.device("user0", token="phone")
    await stage.device("user0", token="tablet")
    (wanted,) = (await accept_in_order(stage, 1, 4)).values()
    provider = Faulty(0.0)
    provider.script("phone", Sent("1"), Gone("UNREGISTERED"))

    await work(stage, provider)

    assert provider.took == {"phone": wanted[:1], "tablet": wanted}
    states = await stage.states()
    # Those that were fanned out once the phone was gone have no delivery for it.
    lost = states.pop("skipped", 0)
    assert (states, lost <= 2) == ({"sent": 5, "gone": 1}, True)
    reasons = await stage.pool.fetch("select reason from deliveries where state = 'skipped'")
    assert [row["reason"] for row in reasons] == ["device_lost"] * lost


async def test_one_that_was_taken_back_lets_the_next_go(stage: Stage) -> None:
    await stage.device("user0")
    (wanted,) = (await accept_in_order(stage, 1, 3)).values()
    provider = Faulty(0.0)
    provider.hold()
    async with stage.working(provider):
        await until(lambda: len(provider.arrived) == 1)
        await found(lambda: held_in_order(stage, 2))
        assert await cancel(stage.pool, wanted[1], stage.clock()) == 1
        provider.let_go.set()
        await all_settled(stage)

    assert provider.took["user0"] == [wanted[0], wanted[2]]


async def test_one_that_is_scheduled_for_later_blocks_nobody(stage: Stage) -> None:
    await stage.device("user0")
    first = await stage.accept(
        "user0", type="step", payload={}, idempotency_key="1", send_at=stage.clock() + timedelta(days=300)
    )
    second = await stage.accept("user0", type="step", payload={}, idempotency_key="2")
    async with stage.working(Faulty(0.0)):
        await stage.settled(second, "sent")
        await stage.settled(first, "scheduled")


async def test_one_that_a_toggle_holds_blocks_nobody(stage: Stage) -> None:
    await stage.device("user0")
    async with stage.working(Faulty(0.0)):
        async with stage.pool.acquire() as connection:
            await toggles.change(
                connection, "type:step", enabled=False, reason=None, by="ops", now=stage.clock()
            )
        held = await stage.accept("user0", type="step", payload={}, idempotency_key="1")

        async def is_held() -> bool:
            (row,) = await stage.deliveries(held)
            return bool(row["held_by"] == "type:step")

        await found(is_held)
        other = await stage.accept("user0", type="grouped_step", payload={}, idempotency_key="2")
        await stage.settled(other, "sent")


async def test_types_of_one_ordering_group_arrive_in_order_and_others_do_not_wait(stage: Stage) -> None:
    await stage.device("user0")
    provider = Faulty(0.0)
    provider.script("user0", Defer("SLOW", timedelta(hours=1), pauses=False))
    async with stage.working(provider):
        first = await stage.accept("user0", type="step", payload={}, idempotency_key="1")
        await until(lambda: len(provider.arrived) == 1)
        second = await stage.accept("user0", type="grouped_step", payload={}, idempotency_key="2")
        await found(lambda: held_in_order(stage, 1))
        other = await stage.accept("user0", type="brittle_step", payload={}, idempotency_key="3")
        await stage.settled(other, "sent")
        stage.clock.advance(timedelta(hours=2))
        await stage.settled(second, "sent")

    assert provider.took["user0"] == [other, first, second]


async def test_order_is_that_of_the_database_whatever_the_clocks_of_producers(stage: Stage) -> None:
    """Two API processes whose clocks are seconds apart accept in turn."""
    await stage.device("user0")
    made = []
    for turn in range(4):
        ahead = timedelta(seconds=2 if turn % 2 else -2)
        acceptor = stage.an_acceptor(clock=lambda ahead=ahead: stage.clock() + ahead)  # type: ignore[misc]
        (answer,) = await acceptor.accept(
            "shop", [an_intent("user0", type="step", payload={}, idempotency_key=f"{turn}")]
        )
        assert isinstance(answer, Accepted)
        made.append(answer.notification_id)
    provider = Faulty(0.0)
    async with stage.working(provider):
        stage.clock.advance(timedelta(seconds=5))
        await all_settled(stage)

    assert provider.took["user0"] == made


async def test_rows_do_not_wait_for_each_other(stage: Stage) -> None:
    await stage.device("user0")
    await stage.device("user1")
    provider = Faulty(0.0)
    provider.script("user0", *[Defer("SLOW", timedelta(hours=1), pauses=False)])
    await accept_in_order(stage, 2, 3)
    async with stage.working(provider):
        await until(lambda: len(provider.took["user1"]) == 3)
        await found(lambda: held_in_order(stage, 2))

    assert not provider.took["user0"]


async def settled(stage: Stage, count: int) -> bool:
    """Return whether so many are sent and nothing is under lease, so that the clock may be moved."""
    leased = await stage.pool.fetchval("select exists (select from deliveries where lease is not null)")
    return not leased and (await stage.states())["sent"] == count


async def held_in_order(stage: Stage, count: int) -> bool:
    held: int = await stage.pool.fetchval("select count(*) from deliveries where held_by = 'order'")
    return held == count
