"""Where intents come from besides the API."""

import asyncio
from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

from tocsin.engine.accept.write import Sourced


class IntentSource(Protocol):
    """Carries intents from somewhere else into Tocsin."""

    async def run(self, stop: asyncio.Event) -> None:
        """Carry intents until `stop` is set, then finish what is under way."""
        ...


class EntryDecoder(NamedTuple):
    """Turns the entries of a stream into intents: what the entries are is known to nobody else.

    `decode` takes the id of an entry, its fields, and the producer if it names none. It never raises: an
    entry that is no valid intent is `Unreadable`. `source` is what intents are recorded and counted under.
    """

    source: str
    decode: Callable[[str, Mapping[bytes, bytes], str], Sourced]
