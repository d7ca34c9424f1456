"""What providers that are called over HTTP have in common."""

import asyncio
from collections.abc import Awaitable, Sequence
from datetime import datetime
from typing import ClassVar, TypeVar

from pyreqwest.exceptions import PyreqwestError

from tocsin.domain.delivery.message import Limits, Message
from tocsin.domain.delivery.outcome import Outcome, Retry
from tocsin.providers.http.client import Connections
from tocsin.providers.http.guarded_client import GuardedConnections
from tocsin.providers.http.ssrf_guard import HostUnknownError
from tocsin.providers.isolation import send_each
from tocsin.providers.settings import HttpProviderSettings

T = TypeVar("T")


class HttpProvider:
    """Sends one message a request; a subclass implements `_send_one`.

    `concurrency` is how many messages may be under way at once.
    """

    name: ClassVar[str]
    limits: ClassVar[Limits]

    def __init__(self, settings: HttpProviderSettings, connections: Connections | GuardedConnections) -> None:
        self.concurrency = settings.max_concurrency
        self._timeout = settings.timeout
        self._connections = connections

    async def prepare(self) -> None:
        """Do nothing ahead of the first message."""

    async def send(self, batch: Sequence[Message], *, now: datetime) -> Sequence[Outcome]:
        """Send each message of the batch, all at once."""

        async def send_one(message: Message) -> Outcome:
            return await or_retry(self._send_one(message, now), self._timeout)

        return await send_each(self.name, batch, send_one)

    async def aclose(self) -> None:
        """Close every connection."""
        await self._connections.aclose()

    async def _send_one(self, message: Message, now: datetime) -> Outcome:
        raise NotImplementedError


async def or_retry(work: Awaitable[T], seconds: float) -> T | Retry:
    """Return the result of an HTTP exchange; one that times out or whose connection fails is a Retry."""
    try:
        async with asyncio.timeout(seconds):
            return await work
    except HostUnknownError as error:
        return Retry("network_error", str(error))
    except TimeoutError as error:
        return Retry("timeout", type(error).__name__)
    except PyreqwestError as error:
        return Retry("network_error", type(error).__name__)
