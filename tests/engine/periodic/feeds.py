"""Periodic producers that yield what a test feeds them."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.engine.periodic.stage import a_source, numbered
from tocsin.periodic import Checkpoint, Yielded

NOON = datetime(2026, 3, 2, 12, 0, 5, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)


class Feed:
    """Numbers from one on: those after the checkpoint, up to `last`."""

    def __init__(self, last: int) -> None:
        self.last = last
        self.runs: list[Checkpoint] = []

    async def __call__(self, checkpoint: Checkpoint) -> AsyncIterator[Yielded]:
        self.runs.append(checkpoint)
        for number in range(checkpoint.read(int, default=0) + 1, self.last + 1):
            yield numbered(number), number


def source_of(feed: Feed, **changes: Any) -> Any:
    async def body(checkpoint: Checkpoint) -> AsyncIterator[Yielded]:
        async for yielded in feed(checkpoint):
            yield yielded

    return a_source(body, **changes)
