"""The sandbox's control API, seen from the runner."""

import asyncio
import urllib.request

import msgspec

from tocsin.sandbox.counters import Stats
from tocsin.sandbox.faults.rules import Latency, Outage

PATIENCE_SECONDS = 10.0


class Controls:
    """Asks the sandbox for its counts and puts up its faults."""

    def __init__(self, url: str) -> None:
        self._url = url

    async def stats(self, provider: str) -> Stats:
        """Read what one stand-in counted so far."""
        return msgspec.json.decode(await self.call("GET", f"stats?provider={provider}"), type=Stats)

    async def reset(self) -> None:
        """Start counting anew, without faults."""
        await self.call("POST", "reset")

    async def put_up(self, provider: str, outage: Outage) -> None:
        """Let one stand-in refuse everything for a while."""
        await self.call("PUT", f"faults/outage?provider={provider}", msgspec.json.encode(outage))

    async def delay(self, provider: str, latency: Latency) -> None:
        """Let one stand-in take so long for each answer."""
        await self.call("PUT", f"faults/latency?provider={provider}", msgspec.json.encode(latency))

    async def call(self, method: str, path: str, body: bytes | None = None) -> bytes:
        """Make one request off the event loop."""
        return await asyncio.to_thread(self._call_now, method, path, body)

    def _call_now(self, method: str, path: str, body: bytes | None) -> bytes:
        url = f"{self._url}/_sandbox/{path}"
        request = urllib.request.Request(url, body, method=method)  # noqa: S310  always the sandbox's http address
        with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS) as response:  # noqa: S310
            return bytes(response.read())
