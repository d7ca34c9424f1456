"""Dead letters and replays for tests."""

from typing import Any
from uuid import UUID

from tests.engine.stage import Stage
from tests.rows import add_delivery, add_notification
from tests.waiting import found
from tocsin.engine.inspect.dead_letters import replay_of, start_replay
from tocsin.engine.settle.replays import run_batch
from tocsin.store.dead_letters import replays
from tocsin.wire.dead_letters import DeadLetterFilter, Replay, ReplayRequest

FAST = 10_000


async def add_dead(stage: Stage, user_id: str = "ada", state: str = "dead", **changes: Any) -> UUID:
    """Add a dead letter of a type that goes by push."""
    now = stage.clock()
    notification = {
        "type": changes.pop("type", "plain"),
        "version": 1,
        "payload": "{}",
        "accepted_at": now,
        "expires_at": changes.pop("expires_at", None),
        "cancelled_at": changes.pop("cancelled_at", None),
    }
    row: dict[str, Any] = {
        "notification_id": changes.pop("notification_id", None)
        or await add_notification(stage.pool, **notification),
        "state": state,
        "attempts": 3,
        "due_at": now,
        "created_at": now,
        "settled_at": now,
        "provider": "fcm",
        "last_error_code": "UNAVAILABLE",
        "recovering": True,
    }
    return await add_delivery(stage.pool, user_id, **row | changes)


async def start(stage: Stage, *, rate: int = FAST, force: bool = False, **wanted: Any) -> UUID:
    request = ReplayRequest(filter=DeadLetterFilter(**wanted), rate=rate, force=force)
    async with stage.pool.acquire() as connection:
        return (await start_replay(connection, request, "ada")).id


async def finished(stage: Stage, replay_id: UUID) -> Replay:
    async def look() -> Replay | None:
        row = await replays.get(stage.pool, replay_id)
        return replay_of(row) if row and row.state != "running" else None

    return await found(look)


async def batch(stage: Stage, replay_id: UUID) -> Replay:
    """Do one batch now, as a worker does, whatever the pace."""
    async with stage.worker_pool.acquire() as connection, connection.transaction():
        row = await replays.take(connection)
        assert row is not None
        await run_batch(connection, row, stage.clock())
    after = await replays.get(stage.pool, replay_id)
    assert after is not None
    return replay_of(after)
