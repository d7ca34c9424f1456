"""Listens at the gateway as an app of a player does, and keeps what arrives."""

import asyncio
from base64 import b64decode
from contextlib import suppress
from typing import Any

import msgspec
from pyreqwest.client import ClientBuilder
from pyreqwest.exceptions import PyreqwestError

RETRY_SECONDS = 0.2


class Arrived(msgspec.Struct, frozen=True):
    """An event that a player's app got."""

    user: str
    type: str
    event_id: str
    body: bytes


class Listener:
    """One session of a player."""

    def __init__(self, user: str, gateway_url: str, token: str, arrived: list[Arrived]) -> None:
        self._user = user
        self._url = f"{gateway_url}/v1/events"
        self._token = token
        self._arrived = arrived
        self._last_id = "0-0"
        self.connected = asyncio.Event()

    async def run(self) -> None:
        """Listen until cancelled; after a lost connection go on where it ended."""
        async with ClientBuilder().build() as client:
            while True:
                with suppress(PyreqwestError):
                    await self._listen(client)
                await asyncio.sleep(RETRY_SECONDS)

    async def _listen(self, client: Any) -> None:
        headers = {"authorization": f"Bearer {self._token}", "last-event-id": self._last_id}
        async with (
            client.get(self._url).headers(headers).streamed_read_buffer_limit(0).build_streamed() as response
        ):
            response.error_for_status()
            self.connected.set()
            rest = b""
            while chunk := await response.body_reader.read_chunk():
                *blocks, rest = (rest + bytes(chunk)).split(b"\n\n")
                for block in blocks:
                    self._take(block.decode())

    def _take(self, block: str) -> None:
        fields = dict(line.split(": ", 1) for line in block.splitlines() if ": " in line and line[0] != ":")
        self._last_id = fields.get("id", self._last_id)
        if "data" in fields and "event" not in fields:
            event = msgspec.json.decode(fields["data"])
            body = b64decode(event["payload"])
            self._arrived.append(Arrived(self._user, event["event_type"], event["event_id"], body))
