"""What FCM and APNs have in common: a request for each message, to one origin, with a token that expires."""

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from datetime import datetime

from tocsin.domain.delivery.message import Message
from tocsin.domain.delivery.outcome import Outcome
from tocsin.providers.http.h2.client import Http2Client
from tocsin.providers.http.h2.exchange import Exchange
from tocsin.providers.http.h2.header_fields import RequestHead
from tocsin.providers.http.provider import HttpProvider, http_fault
from tocsin.providers.http.reply import Reply
from tocsin.providers.isolation import internal_error, is_cancelled
from tocsin.providers.settings import HttpProviderSettings


class Heads:
    """The heads of requests with the credentials of the moment, each encoded once."""

    def __init__(self, build: Callable[[str, str], RequestHead]) -> None:
        self._build = build
        self._credentials = ""
        self._heads: dict[str, RequestHead] = {}

    def get(self, credentials: str, kind: str = "") -> RequestHead:
        """Return the head of requests of a kind."""
        if credentials != self._credentials:
            self._credentials, self._heads = credentials, {}
        head = self._heads.get(kind)
        if head is None:
            head = self._heads[kind] = self._build(credentials, kind)
        return head


class Http2Provider(HttpProvider, ABC):
    """Sends the requests of a batch at once and awaits their futures, without a task for each.

    What one message raises is the outcome of that message. Requests whose credentials were refused are sent
    once more with fresh ones.
    """

    def __init__(self, settings: HttpProviderSettings, client: Http2Client) -> None:
        super().__init__(settings, client)
        self._client = client

    async def send(self, batch: Sequence[Message], *, now: datetime) -> Sequence[Outcome]:
        """Send each message of the batch, all at once."""
        began = time.monotonic()
        credentials = self._credentials()
        if credentials is None:
            outcomes: list[Outcome | None] = [None] * len(batch)
            refused = list(range(len(batch)))
        else:
            outcomes, refused = await self._send_all(batch, credentials, now)
        if refused:
            again = [batch[place] for place in refused]
            for place, outcome in zip(
                refused, await self._renew(again, credentials, now, began), strict=True
            ):
                outcomes[place] = outcome or outcomes[place]
        return [outcome for outcome in outcomes if outcome is not None]

    async def _renew(
        self, batch: Sequence[Message], refused: str | None, now: datetime, began: float
    ) -> Sequence[Outcome | None]:
        """Send messages with fresh credentials, in the time that is left: leases are sized by it.

        None stands for what was answered before: there are no fresher credentials.
        """
        try:
            async with asyncio.timeout(self._timeout - (time.monotonic() - began)):
                fresh = await self._fresh_credentials(refused)
                if not isinstance(fresh, str):
                    return [fresh] * len(batch)
                outcomes, _ = await self._send_all(batch, fresh, now)
                return outcomes
        except Exception as error:  # noqa: BLE001 - whatever it is, each message has an outcome
            return [http_fault(error) or internal_error(self.name, message, error) for message in batch]

    async def _send_all(
        self, batch: Sequence[Message], credentials: str, now: datetime
    ) -> tuple[list[Outcome | None], list[int]]:
        """Return the outcome of each message, and the places of those whose credentials were refused."""
        begun = [self._begin(message, credentials, now) for message in batch]
        outcomes: list[Outcome | None] = []
        refused: list[int] = []
        try:
            for message, request in zip(batch, begun, strict=True):
                if isinstance(request, Exchange):
                    try:
                        reply = await request
                        outcome = self._read(message, reply, now)
                        if self._is_refused(reply, outcome):
                            refused.append(len(outcomes))
                    except asyncio.CancelledError as error:
                        # One that nobody asked of this task comes from within.
                        if is_cancelled():
                            raise
                        outcome = internal_error(self.name, message, error)
                    except Exception as error:  # noqa: BLE001 - one message must not reach the others
                        outcome = http_fault(error) or internal_error(self.name, message, error)
                    outcomes.append(outcome)
                else:
                    outcomes.append(request)
        except asyncio.CancelledError:
            for request in begun:
                if isinstance(request, Exchange) and not request.cancel() and not request.cancelled():
                    # Retrieved, although nobody waits for it any more.
                    request.exception()
            raise
        return outcomes, refused

    def _begin(self, message: Message, credentials: str, now: datetime) -> Exchange | Outcome:
        try:
            return self._post(message, credentials, now)
        except Exception as error:  # noqa: BLE001 - what one message raises must not reach the others
            return internal_error(self.name, message, error)

    @abstractmethod
    def _credentials(self) -> str | None:
        """Return the credentials of this moment; None if they have to be fetched."""

    @abstractmethod
    async def _fresh_credentials(self, refused: str | None) -> str | Outcome | None:
        """Return others than those that were refused, or an outcome; None if there are no others."""

    @abstractmethod
    def _post(self, message: Message, credentials: str, now: datetime) -> Exchange | Outcome:
        """Start the request of a message, or return the outcome of one that cannot be sent."""

    @abstractmethod
    def _read(self, message: Message, reply: Reply, now: datetime) -> Outcome:
        """Return the outcome that an answer means."""

    @abstractmethod
    def _is_refused(self, reply: Reply, outcome: Outcome) -> bool:
        """Return whether the credentials were refused, and fresh ones may help."""
