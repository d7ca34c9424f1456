"""Waiting for a state instead of for some time."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")

LONGEST_WAIT = 20.0
_GLANCE = 0.01


async def until(holds: Callable[[], bool], *, within: float = LONGEST_WAIT) -> None:
    """Look again and again until something holds."""

    async def look() -> bool:
        return holds()

    await found(look, within=within)


async def found(look: Callable[[], Awaitable[T | None]], *, within: float = LONGEST_WAIT) -> T:
    """Look again and again until there is something to see, and give it."""
    async with asyncio.timeout(within):
        while True:
            if seen := await look():
                return seen
            await asyncio.sleep(_GLANCE)
