"""Keeps messages invisible to other readers for as long as somebody works on them."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from tocsin.engine.duty import repeat
from tocsin.ingress.sqs.queue import Received, SqsQueue

LOOKS = 6
"""How often messages are looked at within the time for which they are invisible."""


class HeldMessages:
    """The messages of a queue that are worked on; each is invisible for `seconds`, again and again.

    SQS ends that after twelve hours, whatever is asked for.
    """

    def __init__(self, queue: SqsQueue, seconds: int) -> None:
        self._queue = queue
        self._seconds = seconds
        # In the order of their times, since each message is put at the end with the latest time.
        self._until: dict[str, float] = {}

    def __len__(self) -> int:
        return len(self._until)

    def add(self, messages: Iterable[Received]) -> None:
        """Hold messages that were received just now."""
        until = time.monotonic() + self._seconds
        self._until.update((message.receipt, until) for message in messages)

    def drop(self, receipts: Iterable[str]) -> None:
        """Hold messages no longer."""
        for receipt in receipts:
            self._until.pop(receipt, None)

    @asynccontextmanager
    async def keeping(self) -> AsyncIterator[None]:
        """Keep messages invisible meanwhile."""
        every = self._seconds / LOOKS
        keeping = asyncio.create_task(
            repeat(self.extend, name="queue visibility", subject=self._queue.name, every=every)
        )
        try:
            yield
        finally:
            keeping.cancel()
            await asyncio.wait([keeping])

    async def extend(self) -> None:
        """Extend the time of messages of which half is over."""
        now = time.monotonic()
        due = []
        for receipt, until in self._until.items():
            if until - now > self._seconds / 2:
                break
            due.append(receipt)
        if not due:
            return
        if await self._queue.change_visibility(due, self._seconds):
            # The time of some of them is not extended: all are asked for again at the next look.
            return
        for receipt in due:
            # What was finished meanwhile is held no longer.
            if self._until.pop(receipt, None) is not None:
                self._until[receipt] = now + self._seconds
