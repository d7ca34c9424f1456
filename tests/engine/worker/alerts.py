"""Notifications for a worker to send."""

from collections import Counter
from datetime import timedelta
from typing import Any
from uuid import UUID

import asyncpg

from tests.engine.stage import Stage, an_intent
from tests.waiting import found
from tocsin.engine.accept.answers import Accepted

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)


async def accept_many(stage: Stage, count: int) -> None:
    """Accept one notification each for as many people with a phone."""
    for number in range(count):
        await stage.device(f"user{number}")
    answers = await stage.acceptor.accept(
        "shop", [an_intent(f"user{number}", idempotency_key=f"k{number}") for number in range(count)]
    )
    assert all(isinstance(answer, Accepted) for answer in answers)


async def all_in(stage: Stage, **states: int) -> None:
    async def look() -> bool:
        return await stage.states() == Counter(states)

    await found(look)


async def alert(stage: Stage, **changes: Any) -> UUID:
    """Accept a notification of the type that is tried three times, ten seconds apart."""
    return await stage.accept(type="alert", payload={}, **changes)


async def push_of(stage: Stage, notification_id: UUID) -> dict[str, Any]:
    return next(row for row in await stage.deliveries(notification_id) if row["channel"] == "push")


async def push_in(stage: Stage, notification_id: UUID, state: str) -> dict[str, Any]:
    async def look() -> dict[str, Any] | None:
        row = await push_of(stage, notification_id)
        return row if row["state"] == state and row["lease"] is None else None

    return await found(look)


async def recorded(stage: Stage, count: int) -> None:
    """Wait until so many failed attempts are written down."""

    async def look() -> bool:
        return len(await stage.attempts()) == count

    await found(look)


async def listeners(stage: Stage) -> int:
    """Count who listens, over a connection that no cut has touched."""
    admin = await asyncpg.connect(stage.database_url)
    try:
        count: int = await admin.fetchval(
            "select count(*) from pg_stat_activity "
            "where datname = current_database() and query ilike 'listen%' and pid <> pg_backend_pid()"
        )
    finally:
        await admin.close()
    return count


async def cut_connections(stage: Stage) -> None:
    admin = await asyncpg.connect(stage.database_url)
    try:
        await admin.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity "
            "where datname = current_database() and pid <> pg_backend_pid()"
        )
    finally:
        await admin.close()
