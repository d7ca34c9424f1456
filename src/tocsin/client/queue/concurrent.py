"""A queue for event loops; a task of its own sends batches."""

import asyncio
from collections.abc import Awaitable, Callable

from tocsin.client.exchange import Flow
from tocsin.client.intents import Intent
from tocsin.client.queue.buffer import Buffer, QueueLimits
from tocsin.domain.errors import TocsinError


class ConcurrentQueue:
    """Sends what is queued soon, in batches."""

    def __init__(self, run: Callable[[Flow[None]], Awaitable[None]], limits: QueueLimits) -> None:
        self._run = run
        self._limits = limits
        self._buffer = Buffer(limits.bound)
        self._sending = asyncio.Lock()
        self._queued, self._send_now, self._closing = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def put(self, intent: Intent) -> None:
        """Queue an intent; if the queue is full, send what is queued first."""
        if self._closing.is_set():
            raise RuntimeError("this client is closed; make another")
        if self._buffer.is_full:
            await self._send(self._buffer.make_room())
        self._buffer.add(intent)
        self._task = self._task or asyncio.create_task(self._serve(), name="tocsin-queue")
        self._queued.set()
        if self._buffer.fills_a_batch:
            self._send_now.set()

    async def flush(self) -> None:
        """Send what is queued."""
        await self._send(self._buffer.flush())

    async def close(self) -> None:
        """Send what is queued and stop; raise with what cannot be sent."""
        self._closing.set()
        self._send_now.set()
        self._queued.set()
        if self._task:
            await self._task
            self._task = None
        await self._send(self._buffer.finish())

    async def _serve(self) -> None:
        while not self._closing.is_set():
            await self._queued.wait()
            await _within(self._send_now, self._limits.linger_seconds)
            self._queued.clear()
            self._send_now.clear()
            if self._closing.is_set():
                return
            try:
                await self._send(self._buffer.drain())
            except TocsinError:
                # It stays queued; flush, close, or a put into the full queue raises the failure.
                await _within(self._closing, self._limits.trouble_seconds)
                self._queued.set()

    async def _send(self, flow: Flow[None]) -> None:
        async with self._sending:
            await self._run(flow)


async def _within(event: asyncio.Event, seconds: float) -> None:
    """Wait for an event, at most `seconds`."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return
