"""Inboxes that change while somebody looks."""

from contextlib import AbstractAsyncContextManager
from typing import Any
from uuid import UUID

from tests.gateway.clients import RunningGateway, SseClient, WebSocketClient
from tests.inboxes import add_items
from tests.rows import NOW
from tocsin.store.inbox import marks
from tocsin.store.inbox.marks import Mark
from tocsin.store.inbox.notices import Notice, notify
from tocsin.store.pool import Pool


def sse(live: RunningGateway, user_id: str = "ada", **more: Any) -> AbstractAsyncContextManager[SseClient]:
    return live.sse(user_id, path="/v1/inbox/stream", **more)


def websocket(
    live: RunningGateway, user_id: str = "ada", **more: Any
) -> AbstractAsyncContextManager[WebSocketClient]:
    return live.websocket(user_id, path="/v1/inbox/ws", **more)


async def deliver(pool: Pool, *users: str) -> list[UUID]:
    """Store an item for each of some people, as a settlement does."""
    async with pool.acquire() as connection, connection.transaction():
        made = [(user, (await add_items(connection, user, 1))[0]) for user in users]
        await notify(connection, [Notice("created", user, item) for user, item in made])
    return [item for _, item in made]


async def mark(pool: Pool, user_id: str, item_id: UUID, change: Mark) -> None:
    async with pool.acquire() as connection:
        await marks.mark(connection, user_id, item_id, change, NOW)
