"""Intents queued by tasks of an event loop and sent in batches by one of its own."""

import asyncio
from collections.abc import Awaitable, Callable

from tocsin.client.errors import QueueFullError, TocsinError, UnavailableError
from tocsin.client.intents import Intent
from tocsin.client.queue.buffer import Buffer, QueueLimits


class ConcurrentQueue:
    """Sends what is queued soon after, many at a time."""

    def __init__(self, send: Callable[[Buffer], Awaitable[None]], limits: QueueLimits) -> None:
        self._send = send
        self._limits = limits
        self._buffer = Buffer(limits.bound)
        self._sending = asyncio.Lock()
        self._queued, self._hurry, self._closing = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def put(self, intent: Intent) -> None:
        """Queue an intent; when no more may wait, send what waits first."""
        if self._closing.is_set():
            raise RuntimeError("this client is closed; make another")
        if self._buffer.is_full:
            try:
                await self._drain()
            except UnavailableError as error:
                raise QueueFullError(self._limits.bound) from error
        self._buffer.add(intent)
        self._task = self._task or asyncio.create_task(self._serve(), name="tocsin-queue")
        self._queued.set()
        if self._buffer.fills_a_batch:
            self._hurry.set()

    async def flush(self) -> None:
        """Send what waits."""
        await self._drain()
        self._buffer.raise_refused()

    async def close(self) -> None:
        """Send what waits and end; what cannot be sent is given back in the error."""
        self._closing.set()
        self._hurry.set()
        self._queued.set()
        if self._task:
            await self._task
            self._task = None
        try:
            await self._drain()
        except TocsinError as error:
            self._buffer.raise_unsent(error)
        self._buffer.raise_refused()

    async def _serve(self) -> None:
        while not self._closing.is_set():
            await self._queued.wait()
            await _within(self._hurry, self._limits.linger_seconds)
            self._queued.clear()
            self._hurry.clear()
            if self._closing.is_set():
                return
            try:
                await self._drain()
            except TocsinError:
                # It goes on waiting; who flushes or closes, or finds the queue full, is told of the trouble.
                await _within(self._closing, self._limits.trouble_seconds)
                self._queued.set()

    async def _drain(self) -> None:
        async with self._sending:
            await self._send(self._buffer)


async def _within(event: asyncio.Event, seconds: float) -> None:
    """Wait for an event, at most so long."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return
