"""Expo's push service: many messages a request, a ticket for each, and a receipt later."""

import asyncio
import zlib
from collections.abc import Sequence
from datetime import datetime, timedelta
from http import HTTPStatus
from typing import ClassVar, NamedTuple

import msgspec

from tocsin.domain.delivery.message import Limits, Message
from tocsin.domain.delivery.outcome import Delivered, NotYet, Outcome, ReceiptOutcome, Rejected, Retry, Sent
from tocsin.providers.answers import Failure, decode
from tocsin.providers.expo.answers import MessageStatus, Split, classify_message, classify_request
from tocsin.providers.expo.render import LONGEST_TTL, PAYLOAD_BYTES, render
from tocsin.providers.expo.settings import ExpoSettings
from tocsin.providers.http.h2.client import Http2Client
from tocsin.providers.http.provider import HttpProvider, http_fault
from tocsin.providers.http.reply import Reply
from tocsin.providers.isolation import internal_error

SEND_PATH = "/--/api/v2/push/send"
RECEIPTS_PATH = "/--/api/v2/push/getReceipts"
WORTH_COMPRESSING = 1_024

# Of one message: what Expo answered about the others counts.
_UNREADABLE = Retry("unreadable_answer", "the ticket cannot be parsed", speaks_against="target")
_GZIP = 16 + zlib.MAX_WBITS
_encode = msgspec.json.Encoder().encode


class _Tickets(msgspec.Struct):
    data: list[msgspec.Raw]


class _Receipts(msgspec.Struct):
    data: dict[str, msgspec.Raw]


class _Push(NamedTuple):
    target: str
    rendered: bytes


class ExpoProvider(HttpProvider):
    """Sends a batch a request, over a few HTTP/2 connections."""

    name: ClassVar[str] = "expo"
    limits: ClassVar[Limits] = Limits(payload_bytes=PAYLOAD_BYTES, batch=100, ttl_seconds=LONGEST_TTL)
    receipts_after: ClassVar[timedelta] = timedelta(minutes=15)
    receipts_kept: ClassVar[timedelta] = timedelta(hours=24)
    receipts_batch: ClassVar[int] = 300

    def __init__(self, settings: ExpoSettings) -> None:
        settings.raise_faults()
        self._settings = settings
        requests = -(-settings.max_concurrency // self.limits.batch)
        client = self._client = Http2Client(settings.base_url, settings, requests=requests)
        super().__init__(settings, client)
        self._send_path = client.path(SEND_PATH)
        self._receipts_path = client.path(RECEIPTS_PATH)
        headers = {"content-type": "application/json"}
        if settings.access_token:
            headers["authorization"] = f"Bearer {settings.access_token}"
        self._head = client.head(headers)
        self._gzip_head = client.head(headers | {"content-encoding": "gzip"})

    async def prepare(self) -> None:
        """Connect ahead of the first message, by a request for no receipts; faults show at the first send."""
        await self._post(self._receipts_path, _encode({"ids": []}), self._deadline())

    async def send(self, batch: Sequence[Message], *, now: datetime) -> Sequence[Outcome]:
        """Send the messages that fit in one request, and return the outcome of each."""
        rendered = [self._render(message, now) for message in batch]
        pushes = [
            _Push(message.target, one)
            for message, one in zip(batch, rendered, strict=True)
            if isinstance(one, bytes)
        ]
        answers = iter(await self._send_pushes(pushes, now, self._deadline()) if pushes else ())
        return [next(answers) if isinstance(one, bytes) else one for one in rendered]

    async def receipts(
        self, message_ids: Sequence[str], *, now: datetime
    ) -> Sequence[ReceiptOutcome] | Outcome:
        """Fetch the receipts of messages: one for each, in order, or the outcome of the failed request."""
        return await self._ask(message_ids, now, self._deadline()) if message_ids else []

    def _render(self, message: Message, now: datetime) -> bytes | Rejected:
        try:
            return render(message, now)
        except Exception as error:  # noqa: BLE001 - what one message raises must not reach the others
            return internal_error(self.name, message, error)

    async def _send_pushes(
        self, pushes: Sequence[_Push], now: datetime, deadline: float
    ) -> Sequence[Outcome]:
        body = b"[" + b",".join([push.rendered for push in pushes]) + b"]"
        answer = await self._post(self._send_path, body, deadline)
        if isinstance(answer, Retry):
            return [answer] * len(pushes)
        tickets = decode(answer.body, _Tickets) if answer.status == HTTPStatus.OK else None
        if tickets and len(tickets.data) == len(pushes):
            return [self._outcome(ticket, push) for ticket, push in zip(tickets.data, pushes, strict=True)]
        refusal = self._refusal(answer, [push.target for push in pushes], now)
        if not isinstance(refusal, Split):
            return [refusal] * len(pushes)
        if len(pushes) == 1:
            return [Rejected(refusal.code, refusal.detail)]
        outcomes: dict[int, Outcome] = {}
        for part in parts([push.target for push in pushes], refusal):
            outcomes |= zip(
                part, await self._send_pushes([pushes[place] for place in part], now, deadline), strict=True
            )
        return [outcomes[place] for place in range(len(pushes))]

    async def _ask(
        self, message_ids: Sequence[str], now: datetime, deadline: float
    ) -> Sequence[ReceiptOutcome] | Outcome:
        answer = await self._post(self._receipts_path, _encode({"ids": message_ids}), deadline)
        if isinstance(answer, Retry):
            return answer
        if answer.status == HTTPStatus.OK and (receipts := decode(answer.body, _Receipts)):
            return [self._receipt(receipts.data.get(message_id)) for message_id in message_ids]
        refusal = self._refusal(answer, (), now)
        if isinstance(refusal, Split) and len(message_ids) > 1:
            middle = len(message_ids) // 2
            first = await self._ask(message_ids[:middle], now, deadline)
            if not isinstance(first, Sequence):
                return first
            second = await self._ask(message_ids[middle:], now, deadline)
            return [*first, *second] if isinstance(second, Sequence) else second
        if isinstance(refusal, Split | Rejected):
            # The request was refused, not the messages: their receipts are fetched again later.
            return Retry(refusal.code, refusal.detail)
        return refusal

    async def _post(self, path: bytes, body: bytes, deadline: float) -> Reply | Retry:
        left = deadline - asyncio.get_running_loop().time()
        if left <= 0:
            return Retry("timeout", "the parts sent before left no time")
        head = self._head
        if len(body) > WORTH_COMPRESSING:
            body = zlib.compress(body, level=1, wbits=_GZIP)
            head = self._gzip_head
        try:
            async with asyncio.timeout(left):
                return await self._client.post(head, path, body)
        except Exception as error:
            if (fault := http_fault(error)) is None:
                raise
            return fault

    def _deadline(self) -> float:
        """Return when all requests of one call must have ended: leases are sized by the timeout."""
        return asyncio.get_running_loop().time() + self._timeout

    def _outcome(self, given: msgspec.Raw, push: _Push) -> Outcome:
        ticket = decode(given, MessageStatus)
        if ticket is None:
            return _UNREADABLE
        if ticket.status == "ok":
            return Sent(ticket.id)
        return classify_message(ticket, self._secrets(push.target))

    def _receipt(self, given: msgspec.Raw | None) -> ReceiptOutcome:
        receipt = None if given is None else decode(given, MessageStatus)
        if receipt is None:
            return NotYet()
        return Delivered() if receipt.status == "ok" else classify_message(receipt, self._secrets())

    def _refusal(self, answer: Reply, targets: Sequence[str], now: datetime) -> Split | Failure:
        secrets = self._secrets(*targets)
        return classify_request(answer.status, answer.body, answer.retry_after(now), secrets)

    def _secrets(self, *targets: str) -> Sequence[str]:
        return [*targets, self._settings.access_token or ""]


def parts(targets: Sequence[str], split: Split) -> Sequence[Sequence[int]]:
    """Divide the places of a batch: by project where Expo listed them, else in halves.

    Every part is smaller than the whole, so splitting ends.
    """
    project_of = {token: project for project, tokens in split.projects.items() for token in tokens}
    by_project: dict[str, list[int]] = {}
    for place, target in enumerate(targets):
        by_project.setdefault(project_of.get(target, ""), []).append(place)
    if len(by_project) > 1:
        return list(by_project.values())
    places = range(len(targets))
    return [places[: len(places) // 2], places[len(places) // 2 :]]
