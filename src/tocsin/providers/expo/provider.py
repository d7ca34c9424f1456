"""Expo's push service: many messages a request, a ticket for each, and a receipt later."""

import asyncio
import zlib
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from http import HTTPStatus
from pathlib import Path
from typing import Annotated, ClassVar, NamedTuple, TypeVar

import msgspec
from msgspec import Meta
from pyreqwest.exceptions import PyreqwestError

from tocsin.domain.delivery.message import Limits, Message
from tocsin.domain.delivery.outcome import (
    Defer,
    Delivered,
    NotYet,
    Outcome,
    ReceiptOutcome,
    Rejected,
    Retry,
    Sent,
)
from tocsin.domain.delivery.retry_after import read_retry_after
from tocsin.domain.errors import ProviderSetupError
from tocsin.domain.faults import Fault
from tocsin.providers.expo.answers import Split, Word, classify_request, classify_word
from tocsin.providers.expo.render import LONGEST_TTL, PAYLOAD_BYTES, render
from tocsin.providers.http.client import Connections

SEND_PATH = "/--/api/v2/push/send"
RECEIPTS_PATH = "/--/api/v2/push/getReceipts"
WORTH_COMPRESSING = 1_024

T = TypeVar("T")

_GZIP = 16 + zlib.MAX_WBITS
_encode = msgspec.json.Encoder().encode


class ExpoSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How Expo is reached; the access token is needed only where the project asks for one."""

    enabled: bool = False
    access_token: str | None = None
    base_url: str = "https://exp.host"
    max_concurrency: Annotated[int, Meta(ge=1, le=10_000)] = 600
    connect_timeout: Annotated[float, Meta(gt=0, le=60)] = 5.0
    timeout: Annotated[float, Meta(gt=0, le=300)] = 10.0
    ca_file: Path | None = None

    def __repr__(self) -> str:
        """Show where Expo is, not the secret."""
        return f"ExpoSettings(enabled={self.enabled}, base_url={self.base_url!r})"


def expo_settings_faults(settings: ExpoSettings) -> Iterator[Fault]:
    """Find what cannot work in the settings of Expo."""
    if not settings.base_url.startswith(("https://", "http://")):
        message = "must start with https:// (or http:// for a sandbox)"
        yield Fault(field="expo.base_url", code="invalid", message=message)
    if settings.ca_file and not settings.ca_file.is_file():
        yield Fault(field="expo.ca_file", code="missing", message=f"{settings.ca_file} is not a file")
    if settings.access_token is not None and not _is_token(settings.access_token):
        message = "must be the access token alone, as the Expo dashboard shows it"
        yield Fault(field="expo.access_token", code="invalid", message=message)


def _is_token(text: str) -> bool:
    return bool(text) and text.isascii() and text.isprintable() and " " not in text


class _Tickets(msgspec.Struct):
    data: list[Word]


class _Receipts(msgspec.Struct):
    data: dict[str, Word]


_tickets = msgspec.json.Decoder(_Tickets)
_receipts = msgspec.json.Decoder(_Receipts)


class _Push(NamedTuple):
    target: str
    written: bytes


class _Answer(NamedTuple):
    status: int
    body: bytes
    retry_after: str | None


class ExpoProvider:
    """Sends a batch a request, over a few HTTP/2 connections."""

    name: ClassVar[str] = "expo"
    limits: ClassVar[Limits] = Limits(payload_bytes=PAYLOAD_BYTES, batch=100, ttl_seconds=LONGEST_TTL)
    receipts_after: ClassVar[timedelta] = timedelta(minutes=15)
    receipts_kept: ClassVar[timedelta] = timedelta(hours=24)
    receipts_batch: ClassVar[int] = 300

    def __init__(self, settings: ExpoSettings) -> None:
        faults = list(expo_settings_faults(settings))
        if faults:
            raise ProviderSetupError("; ".join(map(str, faults)))
        base_url = settings.base_url.rstrip("/")
        self._send_url = base_url + SEND_PATH
        self._receipts_url = base_url + RECEIPTS_PATH
        self._settings = settings
        self._connections = Connections(
            concurrency=-(-settings.max_concurrency // self.limits.batch),
            connect_timeout=settings.connect_timeout,
            timeout=settings.timeout,
            ca_file=settings.ca_file,
        )

    @property
    def concurrency(self) -> int:
        """How many messages may be under way at once."""
        return self._settings.max_concurrency

    async def prepare(self) -> None:
        """Connect ahead of the first message, by a question about nothing; faults show at the first send."""
        await self._post(self._receipts_url, _encode({"ids": []}), self._deadline())

    async def send(self, batch: Sequence[Message], *, now: datetime) -> Sequence[Outcome]:
        """Hand over what fits, and say what became of each message."""
        written = [render(message, now) for message in batch]
        pushes = [
            _Push(message.target, one)
            for message, one in zip(batch, written, strict=True)
            if isinstance(one, bytes)
        ]
        answers = iter(await self._hand_over(pushes, now, self._deadline()) if pushes else ())
        return [next(answers) if isinstance(one, bytes) else one for one in written]

    async def receipts(
        self, message_ids: Sequence[str], *, now: datetime
    ) -> Sequence[ReceiptOutcome] | Outcome:
        """Ask what became of messages: one answer each, in order, or why none could be had."""
        return await self._ask(message_ids, now, self._deadline()) if message_ids else []

    async def aclose(self) -> None:
        """Close every connection."""
        await self._connections.aclose()

    async def _hand_over(self, pushes: Sequence[_Push], now: datetime, deadline: float) -> Sequence[Outcome]:
        body = b"[" + b",".join([push.written for push in pushes]) + b"]"
        answer = await self._post(self._send_url, body, deadline)
        if isinstance(answer, Retry):
            return [answer] * len(pushes)
        tickets = _read(_tickets, answer)
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
                part, await self._hand_over([pushes[place] for place in part], now, deadline), strict=True
            )
        return [outcomes[place] for place in range(len(pushes))]

    async def _ask(
        self, message_ids: Sequence[str], now: datetime, deadline: float
    ) -> Sequence[ReceiptOutcome] | Outcome:
        answer = await self._post(self._receipts_url, _encode({"ids": message_ids}), deadline)
        if isinstance(answer, Retry):
            return answer
        if receipts := _read(_receipts, answer):
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
            # The question was refused, not the messages: they stay as they are and are asked about again.
            return Retry(refusal.code, refusal.detail)
        return refusal

    async def _post(self, url: str, body: bytes, deadline: float) -> _Answer | Retry:
        if asyncio.get_running_loop().time() >= deadline:
            return Retry("timeout", "the parts sent before left no time")
        request = self._connections.next().post(url).header("content-type", "application/json")
        if self._settings.access_token:
            bearer = f"Bearer {self._settings.access_token}"
            request = request.header("authorization", bearer, is_sensitive=True)
        if len(body) > WORTH_COMPRESSING:
            body = zlib.compress(body, level=1, wbits=_GZIP)
            request = request.header("content-encoding", "gzip")
        try:
            async with asyncio.timeout_at(deadline):
                answer = await request.body_bytes(body).build().send()
                content = bytes(await answer.bytes())
        except TimeoutError as error:
            return Retry("timeout", type(error).__name__)
        except PyreqwestError as error:
            return Retry("network_error", type(error).__name__)
        return _Answer(answer.status, content, answer.get_header("retry-after"))

    def _deadline(self) -> float:
        """Keep all that one call needs within the time-out: leases reckon by it."""
        return asyncio.get_running_loop().time() + self._settings.timeout

    def _outcome(self, ticket: Word, push: _Push) -> Outcome:
        if ticket.status == "ok":
            return Sent(ticket.id)
        return classify_word(ticket, self._secrets(push.target))

    def _receipt(self, receipt: Word | None) -> ReceiptOutcome:
        if receipt is None:
            return NotYet()
        return Delivered() if receipt.status == "ok" else classify_word(receipt, self._secrets())

    def _refusal(
        self, answer: _Answer, targets: Sequence[str], now: datetime
    ) -> Split | Retry | Defer | Rejected:
        retry_after = read_retry_after(answer.retry_after, now)
        return classify_request(answer.status, answer.body, retry_after, self._secrets(*targets))

    def _secrets(self, *targets: str) -> Sequence[str]:
        return [*targets, self._settings.access_token or ""]


def _read(decoder: msgspec.json.Decoder[T], answer: _Answer) -> T | None:
    """Read what a good answer holds; anything else is for the table of refusals."""
    if answer.status != HTTPStatus.OK:
        return None
    try:
        return decoder.decode(answer.body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def parts(targets: Sequence[str], split: Split) -> Sequence[Sequence[int]]:
    """Divide the places of a batch: by project where Expo named them, else in halves.

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
