"""A session of a player: the events that the gateway sends to it, over SSE."""

import asyncio
import base64
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx

from tests.edges.edge import person
from tests.waiting import found


class PlayerSession:
    """What one connection of a player got so far."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.ids: list[str] = []
        self.comments = 0

    async def event(self, event_id: str) -> dict[str, Any]:
        """Wait for an event by its id and return it; its payload as bytes."""

        async def look() -> dict[str, Any] | None:
            return next((each for each in self.events if each["event_id"] == event_id), None)

        event = await found(look)
        return event | {"payload": base64.b64decode(event["payload"])}

    async def read(self, answer: httpx.Response) -> None:
        data, entry_id = "", ""
        async for line in answer.aiter_lines():
            name, _, value = line.partition(":")
            match name:
                case "data":
                    data += value.lstrip()
                case "id":
                    entry_id = value.strip()
                case "" if line:
                    self.comments += 1
                case "" if data:
                    decoded = json.loads(data)
                    if "event_id" in decoded:
                        self.events.append(decoded)
                        self.ids.append(entry_id)
                    data = ""


@contextlib.asynccontextmanager
async def player_session(
    gateway: str, user_id: str, *, after: str | None = None
) -> AsyncIterator[PlayerSession]:
    """Connect a player to the gateway, from now on or after an event that they got earlier."""
    headers = person(user_id) | ({"Last-Event-ID": after} if after else {})
    session = PlayerSession()
    async with (
        httpx.AsyncClient(base_url=gateway, timeout=60) as client,
        client.stream("GET", "/v1/events", headers=headers) as answer,
    ):
        assert answer.status_code == 200, await answer.aread()
        reading = asyncio.create_task(session.read(answer))
        try:
            yield session
        finally:
            reading.cancel()
            await asyncio.wait([reading])
