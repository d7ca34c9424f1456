"""A request that cannot be written fails its own caller, not those that share its transaction."""

import asyncio
from collections.abc import Sequence
from typing import Any

import asyncpg
import pytest

from tests.engine.stage import Stage, an_intent
from tocsin.engine.accept.answers import Accepted, Duplicate
from tocsin.store import notifications
from tocsin.store.pool import Connection
from tocsin.store.sources import refused


@pytest.mark.parametrize(
    "error", [asyncpg.CheckViolationError("refused"), asyncpg.ProgramLimitExceededError(), KeyError("a bug")]
)
async def test_whatever_one_request_makes_fail_those_that_came_with_it_are_accepted(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    store = notifications.accept

    async def refusing(
        connection: Connection, accepted: Sequence[notifications.NewNotification], *arguments: Any
    ) -> Any:
        if any(each.idempotency_key == "poison" for each in accepted):
            raise error
        return await store(connection, accepted, *arguments)

    monkeypatch.setattr(notifications, "accept", refusing)
    calls = [
        stage.acceptor.accept("shop", [an_intent(idempotency_key=key)])
        for key in ("fine1", "poison", "fine2")
    ]

    first, failed, last = await asyncio.gather(*calls, return_exceptions=True)

    assert failed is error
    for answers in (first, last):
        assert isinstance(answers, list)
        assert isinstance(answers[0], Accepted)


async def test_what_a_write_stored_before_it_failed_is_accepted_and_no_duplicate(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    record, calls = refused.record, 0

    async def failing_once(*arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise asyncpg.CheckViolationError("refused")
        return await record(*arguments)

    monkeypatch.setattr(refused, "record", failing_once)
    intents = [an_intent(idempotency_key="fine"), an_intent(idempotency_key="bad", type="unknown")]

    answer, _ = await stage.acceptor.accept("shop", intents)
    again, _ = await stage.acceptor.accept("shop", intents)

    assert calls > 1
    assert isinstance(answer, Accepted)
    assert again == Duplicate(answer.notification_id)
