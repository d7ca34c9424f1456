"""Waiting for a state instead of for some time."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")

LONGEST_WAIT = 20.0
_GLANCE = 0.01


async def until(look: Callable[[], Awaitable[T] | T], *, within: float = LONGEST_WAIT) -> T:
    """Look again and again until what is seen is true, and give it."""
    async with asyncio.timeout(within):
        while True:
            seen = look()
            value = await seen if isinstance(seen, Awaitable) else seen
            if value:
                return value
            await asyncio.sleep(_GLANCE)
