"""What FCM and APNs have in common: a request for each message, to one origin, with a token that expires."""

import asyncio
import traceback
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from datetime import datetime

import structlog

from tocsin.domain.delivery.message import Message
from tocsin.domain.delivery.outcome import Outcome, Retry, Sent
from tocsin.providers.answers import Failure
from tocsin.providers.http.h2.client import Http2Client
from tocsin.providers.http.h2.exchange import AnswerGroup, Exchange
from tocsin.providers.http.h2.header_fields import RequestHead
from tocsin.providers.http.provider import HttpProvider, http_fault
from tocsin.providers.http.reply import Reply
from tocsin.providers.isolation import internal_error, is_cancelled
from tocsin.providers.settings import HttpProviderSettings

_log = structlog.stdlib.get_logger(__name__)


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
    """Sends the requests of a batch at once and reads their answers as they come, without a task for each.

    What one message raises is the outcome of that message. Requests whose credentials were refused are sent
    once more with fresh ones.
    """

    def __init__(self, settings: HttpProviderSettings, client: Http2Client) -> None:
        super().__init__(settings, client)
        self._client = client

    async def send(self, batch: Sequence[Message], *, now: datetime) -> Sequence[Outcome]:
        """Send each message of the batch, all at once."""
        outcomes: dict[int, Outcome] = {}
        async with aclosing(self.send_each(batch, now=now)) as answers:
            async for answered in answers:
                outcomes.update(answered)
        return [outcomes[place] for place in range(len(batch))]

    async def send_each(
        self, batch: Sequence[Message], *, now: datetime
    ) -> AsyncGenerator[Sequence[tuple[int, Outcome]], None]:
        """Send each message of the batch; yield the outcomes that came together, with their places in it."""
        sending = _Sending(self, batch, now, self._timeout)
        left = len(batch)
        try:
            sending.begin()
            while left:
                if answered := await sending.wait():
                    left -= len(answered)
                    yield answered
        finally:
            sending.close()

    def begin(self, message: Message, credentials: str, now: datetime) -> Exchange | Outcome:
        """Start the request of a message, or return the outcome of one that cannot be sent."""
        try:
            return self._post(message, credentials, now)
        except Exception as error:  # noqa: BLE001 - what one message raises must not reach the others
            return internal_error(self.name, message, error)

    def end(self, message: Message, request: Exchange, now: datetime) -> tuple[Outcome, bool]:
        """Return the outcome of a request that has ended, and whether its credentials were refused."""
        try:
            reply = request.result()
            outcome = self._read(message, reply, now)
            return outcome, not isinstance(outcome, Sent) and self._is_refused(reply, outcome)
        except asyncio.CancelledError as error:
            # Nobody asked for that: whoever cancels a batch does not read its answers any more.
            return internal_error(self.name, message, error), False
        except Exception as error:  # noqa: BLE001 - what one message raises must not reach the others
            return http_fault(error) or internal_error(self.name, message, error), False

    @abstractmethod
    def credentials(self) -> str | None:
        """Return the credentials of this moment; None if they have to be fetched."""

    @abstractmethod
    async def fresh_credentials(self, refused: str | None) -> str | Outcome | None:
        """Return others than those that were refused, or an outcome; None if there are no others."""

    @abstractmethod
    def _post(self, message: Message, credentials: str, now: datetime) -> Exchange | Outcome:
        """Start the request of a message, or return the outcome of one that cannot be sent."""

    @abstractmethod
    def _read(self, message: Message, reply: Reply, now: datetime) -> Outcome:
        """Return the outcome that an answer means."""

    @abstractmethod
    def _is_refused(self, reply: Reply, failure: Failure) -> bool:
        """Return whether the credentials were refused, and fresh ones may help."""


class _Sending:
    """The requests of one batch, until each message has its outcome."""

    def __init__(
        self, provider: Http2Provider, batch: Sequence[Message], now: datetime, seconds: float
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._provider = provider
        self._batch = batch
        self._now = now
        self._deadline = self._loop.time() + seconds
        self._credentials = provider.credentials()
        self._group = AnswerGroup(self._loop)
        self._requests: dict[int, Exchange] = {}
        self._ready: list[tuple[int, Outcome]] = []
        self._renewed: set[int] = set()
        self._renewals: set[asyncio.Task[None]] = set()

    def begin(self) -> None:
        """Start every request, or fetch the credentials for them."""
        places = range(len(self._batch))
        if self._credentials is None:
            self._start_renewal(dict.fromkeys(places))
        else:
            self._post(places, self._credentials)

    async def wait(self) -> Sequence[tuple[int, Outcome]]:
        """Wait until something happens; return the outcomes that came together, which may be none."""
        ended = () if self._ready else await self._group.wait()
        outcomes, self._ready = self._ready, []
        refused: dict[int, Outcome | None] = {}
        for request in ended:
            place = request.place
            del self._requests[place]
            outcome, is_refused = self._provider.end(self._batch[place], request, self._now)
            if is_refused and place not in self._renewed:
                refused[place] = outcome
            else:
                outcomes.append((place, outcome))
        if refused:
            self._start_renewal(refused)
        return outcomes

    def close(self) -> None:
        """Cancel what has no outcome yet."""
        for task in self._renewals:
            task.cancel()
        for request in self._requests.values():
            request.cancel()

    def _post(self, places: Iterable[int], credentials: str) -> None:
        begin, batch, now = self._provider.begin, self._batch, self._now
        requests, watch = self._requests, self._group.watch
        for place in places:
            request = begin(batch[place], credentials, now)
            if isinstance(request, Exchange):
                requests[place] = request
                watch(request, place)
            else:
                self._ready.append((place, request))

    def _start_renewal(self, refused: Mapping[int, Outcome | None]) -> None:
        """Send messages with fresh credentials, in a task: the answers of others do not wait for those."""
        self._renewed.update(refused)
        task = self._loop.create_task(self._renew(refused))
        self._renewals.add(task)
        task.add_done_callback(self._renewals.discard)

    async def _renew(self, refused: Mapping[int, Outcome | None]) -> None:
        """Send messages with fresh credentials, in the time that is left: leases are sized by it.

        Without any, the outcome is the one that it was.
        """
        try:
            async with asyncio.timeout_at(self._deadline):
                fresh = await self._provider.fresh_credentials(self._credentials)
            if isinstance(fresh, str):
                self._post(refused, fresh)
                for place in refused.keys() & self._requests.keys():
                    self._requests[place].deadline = self._deadline
            else:
                self._ready += [(place, fresh or _given(before)) for place, before in refused.items()]
        except (Exception, asyncio.CancelledError) as error:
            # A cancellation that nobody asked for comes from a library that gave up a future.
            if is_cancelled():
                raise
            fault = self._fault(error)
            self._ready += [(place, fault) for place in refused]
        self._group.wake()

    def _fault(self, error: BaseException) -> Outcome:
        """Return the outcome of messages that were not sent for want of credentials: none is to blame."""
        if isinstance(error, Exception) and (fault := http_fault(error)) is not None:
            return fault
        kind = type(error).__name__
        raised_at = "".join(traceback.format_tb(error.__traceback__))
        _log.error("credentials failed", provider=self._provider.name, error=kind, raised_at=raised_at)
        return Retry("token_unavailable", kind)


def _given(outcome: Outcome | None) -> Outcome:
    if outcome is None:
        raise RuntimeError("a provider that has no credentials returns an outcome instead")
    return outcome
