"""What providers that are called over HTTP have in common."""

from collections.abc import Coroutine, Sequence
from datetime import datetime
from typing import ClassVar, Protocol

from pyreqwest.exceptions import ConnectError, PyreqwestError

from tocsin.domain.delivery.message import Limits, Message
from tocsin.domain.delivery.outcome import Outcome, Retry
from tocsin.providers.http.h2.errors import RequestFailedError
from tocsin.providers.http.ssrf_guard import HostUnknownError
from tocsin.providers.isolation import send_each
from tocsin.providers.settings import HttpProviderSettings


class Connections(Protocol):
    """What a provider sends by, and closes in the end."""

    async def aclose(self) -> None:
        """Close every connection."""


class HttpProvider:
    """Sends one message a request; a subclass implements `_send_one`.

    `concurrency` is how many messages may be under way at once.
    """

    name: ClassVar[str]
    limits: ClassVar[Limits]

    def __init__(self, settings: HttpProviderSettings, connections: Connections) -> None:
        self.concurrency = settings.max_concurrency
        self._timeout = settings.timeout
        self._to_close = connections

    async def prepare(self) -> None:
        """Do nothing ahead of the first message."""

    def send(self, batch: Sequence[Message], *, now: datetime) -> Coroutine[None, None, Sequence[Outcome]]:
        """Send each message of the batch, all at once."""
        return send_each(self.name, batch, lambda message: self._send_one(message, now), http_fault)

    async def aclose(self) -> None:
        """Close every connection."""
        await self._to_close.aclose()

    async def _send_one(self, message: Message, now: datetime) -> Outcome:
        raise NotImplementedError


def http_fault(error: Exception) -> Retry | None:
    """Return the outcome of an HTTP exchange that timed out or whose connection failed."""
    match error:
        case HostUnknownError():
            return Retry("network_error", str(error))
        case RequestFailedError():
            code = "timeout" if isinstance(error, TimeoutError) else "network_error"
            return Retry(code, str(error), uncertain=error.may_be_processed)
        case TimeoutError():
            # Its type does not show whether the request was sent: the client also says so of answers.
            return Retry("timeout", type(error).__name__, uncertain=True)
        case PyreqwestError():
            return Retry("network_error", type(error).__name__, uncertain=not isinstance(error, ConnectError))
        case _:
            return None
