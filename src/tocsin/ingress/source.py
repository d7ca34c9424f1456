"""Where intents come from besides the API."""

import asyncio
from typing import Protocol


class IntentSource(Protocol):
    """Carries intents from somewhere else into Tocsin."""

    async def run(self, stop: asyncio.Event) -> None:
        """Carry intents until `stop` is set, then finish what is under way."""
        ...
