"""Long computations in slices, so that the other tasks of the event loop are served in between."""

import asyncio
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")

SLICE_SECONDS = 0.01
STEP = 8


class TimeSlice:
    """Measures how long the event loop has been occupied without a pause."""

    def __init__(self) -> None:
        self._until = time.monotonic() + SLICE_SECONDS

    @property
    def is_over(self) -> bool:
        """Whether it is time to pause; steps of a few microseconds ask for it before they await a pause."""
        return time.monotonic() >= self._until

    async def pause(self) -> None:
        """Yield to the event loop if the slice is used up; call it between the steps of a computation."""
        if self.is_over:
            await asyncio.sleep(0)
            self._until = time.monotonic() + SLICE_SECONDS


def steps(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """Split items that each take a few microseconds, to ask for the time once for several of them."""
    return (items[start : start + STEP] for start in range(0, len(items), STEP))


async def paced(items: Iterable[T]) -> list[T]:
    """Collect items that are computed one by one, in slices."""
    slice_ = TimeSlice()
    collected = []
    for item in items:
        collected.append(item)
        await slice_.pause()
    return collected
