"""Handing in intents."""

from typing import Any
from uuid import UUID

from tests.engine.stage import Stage
from tocsin.domain.intent import Audience, Intent
from tocsin.engine.accept.answers import Answer, Invalid, Unreadable

LAST = UUID(int=2**128 - 1)


async def accept(stage: Stage, *intents: Intent | Unreadable, producer: str = "shop") -> list[Answer]:
    return await stage.acceptor.accept(producer, intents)


def alert(**payload: Any) -> Intent:
    return Intent(type="alert", audience=Audience(users=["ada"]), payload=payload, idempotency_key="key")


def codes(answer: Answer) -> list[str]:
    assert isinstance(answer, Invalid)
    return [fault.code for fault in answer.errors]
