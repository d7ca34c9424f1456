"""Running a part of a process beside a test."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Protocol


class Runnable(Protocol):
    async def run(self, stop: asyncio.Event) -> None: ...


@contextlib.asynccontextmanager
async def running(part: Runnable) -> AsyncIterator[asyncio.Task[None]]:
    """Run a part, and stop it at the end; what it raises is raised here."""
    stop = asyncio.Event()
    task = asyncio.create_task(part.run(stop))
    try:
        yield task
        stop.set()
        if not task.cancelled():
            await task
    finally:
        task.cancel()
        await asyncio.wait([task])
