"""Deliveries whose worker lost its lease: each is dispatched alone and delays no other."""

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from tests.engine.stage import QUICK, Stage, StubProvider, a_provider, an_intent
from tests.rows import add_user
from tests.waiting import until
from tocsin.domain.delivery.message import Message
from tocsin.domain.delivery.outcome import Outcome
from tocsin.domain.ids import new_lease_id
from tocsin.engine.accept.answers import Accepted
from tocsin.engine.dispatch import lane
from tocsin.store.deliveries.claim import claim, take_over

SECOND = timedelta(seconds=1)
PUSH_AND_MAIL = {"push": ("fcm",), "email": ("smtp",)}


class HangingForSome(StubProvider):
    """Never answers messages to targets that are named `lost…`, until it is closed."""

    def __init__(self) -> None:
        super().__init__()
        self._over = asyncio.Event()

    async def send(self, batch: Sequence[Message], *, now: datetime) -> Sequence[Outcome]:
        outcomes = await super().send(batch, now=now)
        if batch[0].target.startswith("lost"):
            await self._over.wait()
        return outcomes

    def end(self) -> None:
        self._over.set()

    def targets(self) -> list[str]:
        return [message.target for message in self.arrived]


async def lose(stage: Stage, notification_id: UUID, *, state: str = "pending", attempts: int = 0) -> None:
    """Let a worker have lost the leases of all deliveries of a notification, in a first claim."""
    await stage.pool.execute(
        "update deliveries set lease = $2, leased_until = $3, state = $4, attempts = $5"
        " where notification_id = $1",
        notification_id,
        new_lease_id(),
        stage.clock() - SECOND,
        state,
        attempts,
    )


async def test_a_lost_one_that_hangs_delays_neither_the_next_nor_what_is_new(stage: Stage) -> None:
    """It keeps the other lost ones back for a moment, in which it would crash; what is new not at all."""
    provider = HangingForSome()
    names = ["lost0", "lost1", "lost2"]
    for name in [*names, "new"]:
        await stage.device(name)
    await lose(stage, await stage.accept(*names, type="plain", payload={}))
    async with stage.working(provider):
        await until(lambda: len(provider.arrived) == 1)
        started = asyncio.get_running_loop().time()
        await stage.settled(
            await stage.accept("new", type="plain", idempotency_key="new", payload={}), "sent"
        )
        await until(lambda: len(provider.arrived) == 4)
        took = asyncio.get_running_loop().time() - started
        provider.end()

    assert sorted(provider.targets()) == sorted([*names, "new"])
    assert took < QUICK.lease_seconds / 4


async def test_lost_ones_take_turns_with_what_is_new_also_where_nothing_is_sent(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the lane `fanout` each lost one is done at once; the next must not come before everybody else."""
    order: list[UUID] = []

    async def taking_over(*arguments: Any, **named: Any) -> Any:
        found = await take_over(*arguments, **named)
        order.extend([found.id] if found else [])
        return found

    async def claiming(*arguments: Any, **named: Any) -> Any:
        found = await claim(*arguments, **named)
        order.extend(each.id for each in found)
        return found

    monkeypatch.setattr(lane, "take_over", taking_over)
    monkeypatch.setattr(lane, "claim", claiming)
    names = [f"user{number}" for number in range(20)]
    lost = await stage.accept(*names, type="plain", payload={})
    await lose(stage, lost)
    new = await stage.accept("new", type="plain", payload={}, idempotency_key="new")
    (row,) = await stage.deliveries(new)
    assert row["lane"] == "fanout"
    async with stage.working(StubProvider()):
        await stage.settled(lost, "skipped")
        await stage.settled(new, "skipped")

    assert order.index(row["id"]) <= 2
    assert len(order) == 21


async def test_a_first_lost_lease_ends_no_delivery_however_many_attempts_it_had(stage: Stage) -> None:
    """Its attempts can be used up while it waits: the catalog lowered their number, or a toggle held it."""
    provider = StubProvider()
    await stage.device("ada")
    notification_id = await stage.accept("ada", type="lasting", payload={})
    await lose(stage, notification_id, attempts=5)
    async with stage.working(provider):
        (row,) = await stage.settled(notification_id, "sent", "dead")

    assert (row["state"], row["attempts"]) == ("sent", 6)


@pytest.mark.parametrize("state", ["pending", "retrying"])
@pytest.mark.parametrize("fallback", ["sent", "dead"])
async def test_a_push_taken_over_after_its_fallback_was_sent_is_not_sent(
    stage: Stage, fallback: str, state: str
) -> None:
    provider = StubProvider()
    await stage.device("ada")
    await add_user(stage.pool, "ada", email="ada@example.com")
    (answer,) = await stage.an_acceptor(PUSH_AND_MAIL).accept(
        "shop", [an_intent("ada", type="must_know", payload={})]
    )
    assert isinstance(answer, Accepted)
    await lose(stage, answer.notification_id, state=state)
    await stage.pool.execute(
        "update deliveries set state = $1, lease = null, leased_until = null, settled_at = now()"
        " where channel = 'email'",
        fallback,
    )
    async with stage.working(provider, a_provider("smtp")):
        rows = await stage.settled(answer.notification_id, "sent", "cancelled", "dead")

    push = next(row for row in rows if row["channel"] == "push")
    superseded = ("cancelled", "superseded_by_failover")
    assert (push["state"], push["reason"]) == (superseded if fallback == "sent" else ("sent", None))
    assert len(provider.arrived) == (0 if fallback == "sent" else 1)
