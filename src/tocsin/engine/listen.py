"""Listening for NOTIFY on a connection of its own."""

import asyncio
from collections.abc import Awaitable, Callable
from collections.abc import Set as AbstractSet
from contextlib import AbstractAsyncContextManager
from typing import Any

import asyncpg
import structlog

from tocsin.domain.errors import DatabaseError
from tocsin.engine.duty import pause

RECONNECT_SECONDS = 0.5

_log = structlog.stdlib.get_logger(__name__)


async def listen(
    opened: AbstractAsyncContextManager[asyncpg.Connection],
    channel: str,
    on_notify: Callable[[asyncpg.Connection, AbstractSet[str]], Awaitable[None]],
    *,
    refresh_seconds: float | None = None,
) -> None:
    """Call `on_notify` once connected, after each NOTIFY on `channel`, and every `refresh_seconds`.

    It gets the payloads since the last call.

    Raise DatabaseError when the connection is lost: as the step of a duty, that connects again.
    """
    notified = asyncio.Event()
    payloads: set[str] = set()

    def add(*notification: Any) -> None:
        payloads.add(notification[-1])
        notified.set()

    async with opened as connection:
        connection.add_termination_listener(lambda _: notified.set())
        await connection.add_listener(channel, add)
        _log.info("listener connected", channel=channel)
        while not connection.is_closed():
            # Cleared before the call, so that a change during it leads to another call.
            notified.clear()
            received = frozenset(payloads)
            payloads.clear()
            await on_notify(connection, received)
            await pause(refresh_seconds, notified)
    raise DatabaseError(f"The connection that listens on {channel} was lost.")
