"""What a settlement leads to is written in its transaction: a fault in between loses none of it."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from tests.engine.stage import Stage, StubProvider, a_provider, an_intent
from tests.rows import add_user
from tests.waiting import found, until
from tocsin.domain.delivery.outcome import Retry
from tocsin.engine.accept.answers import Accepted
from tocsin.engine.dispatch.settings import DispatchSettings
from tocsin.engine.settle import writer
from tocsin.store.deliveries import digests
from tocsin.store.deliveries.failover import collapse_older, supersede, supersede_late

PATIENT = DispatchSettings(poll_seconds=0.02, lease_seconds=3_600, stop_seconds=10)
LATER = timedelta(minutes=11)


class Once:
    """Fails when it is called first, as if the connection had broken before the statement."""

    def __init__(self, original: Callable[..., Awaitable[Any]]) -> None:
        self._original = original
        self.calls = 0

    async def __call__(self, *arguments: Any) -> Any:
        self.calls += 1
        if self.calls == 1:
            raise asyncpg.ConnectionDoesNotExistError("connection was closed in the middle of operation")
        return await self._original(*arguments)


async def ended(stage: Stage, notification_id: UUID, channel: str = "push") -> tuple[str, str | None]:
    async def look() -> tuple[str, str | None] | None:
        (row,) = [row for row in await stage.deliveries(notification_id) if row["channel"] == channel]
        return (row["state"], row["reason"]) if row["settled_at"] else None

    return await found(look)


async def must_know(stage: Stage) -> UUID:
    """Accept one that goes by push, and by mail if that is not sent in time."""
    await stage.device("ada")
    await add_user(stage.pool, "ada", email="ada@example.com")
    acceptor = stage.an_acceptor({"push": ("fcm",), "email": ("smtp",)})
    (answer,) = await acceptor.accept("shop", [an_intent("ada", type="must_know", payload={})])
    assert isinstance(answer, Accepted)
    return answer.notification_id


async def test_older_messages_collapse_with_the_newer_one_that_was_sent(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    once = Once(collapse_older)
    monkeypatch.setattr(writer, "collapse_older", once)
    await stage.device("ada")
    common = {"type": "plain", "payload": {}, "collapse_key": "k"}
    older = await stage.accept("ada", **common, send_at=stage.clock() + timedelta(hours=1))
    async with stage.working(StubProvider()):
        newer = await stage.accept("ada", **common, idempotency_key="newer")
        await stage.settled(newer, "sent")
        assert await ended(stage, older) == ("skipped", "collapsed")

    assert once.calls == 2


async def test_members_end_with_the_digest_that_was_sent(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    once = Once(digests.end)
    monkeypatch.setattr(digests, "end", once)
    await stage.device("ada")
    member = await stage.accept("ada", type="collected", payload={})
    stage.clock.advance(timedelta(seconds=3))
    async with stage.working(StubProvider()):
        assert await ended(stage, member) == ("sent", None)

    assert once.calls == 2


async def test_a_push_that_waits_is_cancelled_with_the_sending_of_its_fallback(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    once = Once(supersede)
    monkeypatch.setattr(writer, "supersede", once)
    push = StubProvider()
    push.script("ada", Retry("UNAVAILABLE"))
    async with stage.working(push, a_provider("smtp")):
        notification_id = await must_know(stage)
        await until(lambda: len(push.arrived) == 1)
        stage.clock.advance(LATER)
        assert await ended(stage, notification_id) == ("cancelled", "superseded_by_failover")

    assert once.calls == 2


async def test_a_push_that_fails_late_is_cancelled_with_its_settlement(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    once = Once(supersede_late)
    monkeypatch.setattr(writer, "supersede_late", once)
    push, mail = StubProvider(), a_provider("smtp")
    push.script("ada", Retry("UNAVAILABLE"))
    push.hold()
    async with stage.working(push, mail, settings=PATIENT):
        notification_id = await must_know(stage)
        await until(lambda: len(push.arrived) == 1)
        stage.clock.advance(LATER)
        assert await ended(stage, notification_id, "email") == ("sent", None)
        push.let_go.set()
        assert await ended(stage, notification_id) == ("cancelled", "superseded_by_failover")

    assert once.calls == 2
