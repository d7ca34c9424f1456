"""Apple Push Notification service, over HTTP/2 with a provider token."""

import asyncio
import hashlib
import re
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from http import HTTPStatus
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import Meta
from pyreqwest.exceptions import PyreqwestError
from pyreqwest.response import Response

from tocsin.domain.delivery.message import DEFAULT_APPEARANCE, Limits, Message, PushAppearance
from tocsin.domain.delivery.outcome import Defer, Gone, Outcome, Rejected, Retry, Sent
from tocsin.domain.delivery.retry_after import read_retry_after
from tocsin.domain.errors import ProviderSetupError
from tocsin.domain.faults import Fault
from tocsin.providers.apns.answers import classify
from tocsin.providers.apns.provider_token import ProviderTokens, load_key
from tocsin.providers.http.client import Connections

Environment = Literal["production", "sandbox"]

HOSTS: dict[Environment, str] = {
    "production": "https://api.push.apple.com",
    "sandbox": "https://api.sandbox.push.apple.com",
}
VOIP_BYTES = 5_120
LONGEST_COLLAPSE_ID = 64

# Whatever else stood in the address would lead to another one.
_TOKEN = re.compile(r"[A-Za-z0-9_-]+")
_TOPIC = re.compile(r"[A-Za-z0-9.-]+")
_encoder = msgspec.json.Encoder()


class ApnsSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How APNs is reached; without a key file it is not used.

    `topic` is the app's bundle id; `base_url` stands in for the address of the environment.
    """

    key_file: Path | None = None
    key_id: str | None = None
    team_id: str | None = None
    topic: str | None = None
    environment: Environment = "production"
    base_url: str | None = None
    max_concurrency: Annotated[int, Meta(ge=1, le=10_000)] = 20
    connect_timeout: Annotated[float, Meta(gt=0, le=60)] = 5.0
    timeout: Annotated[float, Meta(gt=0, le=300)] = 10.0
    ca_file: Path | None = None


def apns_settings_faults(settings: ApnsSettings) -> Iterator[Fault]:
    """Find what is missing from the APNs settings or contradicts itself."""
    named = {name: getattr(settings, name) for name in ("key_id", "team_id", "topic")}
    if settings.key_file is None:
        for name in (name for name, value in named.items() if value):
            message = f"is needed with apns.{name}: name the .p8 file that Apple handed out"
            yield Fault(field="apns.key_file", code="missing", message=message)
            break
    else:
        for name in (name for name, value in named.items() if not value):
            message = "is needed with apns.key_file: Apple's developer site shows it"
            yield Fault(field=f"apns.{name}", code="missing", message=message)
        yield from _key_faults(settings.key_file)
    if settings.topic and (not _TOPIC.fullmatch(settings.topic) or settings.topic.endswith(".voip")):
        message = f"must be the app's bundle id and no more, not {settings.topic!r}"
        yield Fault(field="apns.topic", code="invalid", message=message)
    if settings.base_url is not None and not settings.base_url.startswith("https://"):
        message = f"must begin with https://, not be {settings.base_url!r}: APNs speaks HTTP/2 over TLS alone"
        yield Fault(field="apns.base_url", code="invalid", message=message)
    if settings.ca_file is not None and not settings.ca_file.is_file():
        yield Fault(field="apns.ca_file", code="missing", message=f"{settings.ca_file} is not a file")


def _key_faults(path: Path) -> Iterator[Fault]:
    if not path.is_file():
        yield Fault(field="apns.key_file", code="missing", message=f"{path} is not a file")
        return
    try:
        load_key(path)
    except ProviderSetupError as error:
        yield Fault(field="apns.key_file", code="invalid", message=str(error))


def render(message: Message) -> bytes | Rejected:
    """Write a message as APNs wants it; what the app reads stands beside Apple's own block."""
    appearance = message.appearance
    if appearance.push_type == "background":
        aps: dict[str, Any] = {"content-available": 1}
    else:
        aps = {"alert": {"title": message.title, "body": message.body}}
    payload: dict[str, Any] = {**message.data, "aps": aps}
    if appearance is not DEFAULT_APPEARANCE:
        _add_appearance(payload, aps, appearance)
    body = _encoder.encode(payload)
    most = VOIP_BYTES if appearance.push_type == "voip" else ApnsProvider.limits.payload_bytes
    if len(body) > most:
        return Rejected("payload_too_large", f"{len(body)} bytes; APNs takes {most}")
    return body


def _add_appearance(payload: dict[str, Any], aps: dict[str, Any], appearance: PushAppearance) -> None:
    """Add what an appearance asks for; Apple lets a background push show and sound nothing."""
    if appearance.deep_link is not None:
        payload["deep_link"] = appearance.deep_link
    if appearance.route is not None:
        payload["route"] = appearance.route
    if appearance.push_type == "background":
        return
    if appearance.image is not None:
        payload["image"] = appearance.image
        # Lets the app's service extension fetch the image before the alert is shown.
        aps["mutable-content"] = 1
    if appearance.sound is not None:
        aps["sound"] = appearance.sound
    if appearance.badge is not None:
        aps["badge"] = appearance.badge
    if appearance.click_action is not None:
        aps["category"] = appearance.click_action
    if appearance.severity == "critical":
        # Apple's own level `critical` needs its consent for each app.
        aps["interruption-level"] = "time-sensitive"


def collapse_id(key: str) -> str:
    """Make a collapse key fit for its header: what is too long or not plain ASCII becomes its digest."""
    if len(key) <= LONGEST_COLLAPSE_ID and key.isascii() and key.isprintable():
        return key
    return hashlib.sha256(key.encode()).hexdigest()


class ApnsProvider:
    """Sends one message a request over a group of HTTP/2 connections."""

    name: ClassVar[str] = "apns"
    limits: ClassVar[Limits] = Limits(payload_bytes=4_096, batch=1, ttl_seconds=2_592_000)

    def __init__(self, settings: ApnsSettings, *, clock: Callable[[], float] = time.time) -> None:
        if settings.key_file is None:
            raise ProviderSetupError("APNs needs TOCSIN_APNS__KEY_FILE.")
        faults = list(apns_settings_faults(settings))
        if faults or not (settings.key_id and settings.team_id and settings.topic):
            raise ProviderSetupError("; ".join(map(str, faults)))
        self._tokens = ProviderTokens(
            load_key(settings.key_file), key_id=settings.key_id, team_id=settings.team_id, clock=clock
        )
        self._topic = settings.topic
        self._url = f"{(settings.base_url or HOSTS[settings.environment]).rstrip('/')}/3/device/"
        self._concurrency = settings.max_concurrency
        self._timeout = settings.timeout
        self._proven = False
        self._connections = Connections(
            concurrency=settings.max_concurrency,
            connect_timeout=settings.connect_timeout,
            timeout=settings.timeout,
            ca_file=settings.ca_file,
        )

    @property
    def concurrency(self) -> int:
        """How many messages may be under way at once."""
        return self._concurrency

    async def prepare(self) -> None:
        """Sign the provider token ahead of the first message."""
        self._tokens.header()

    async def send(self, batch: Sequence[Message], *, now: datetime) -> Sequence[Outcome]:
        """Hand over each message of the batch."""
        return [await self._send_one(message, now) for message in batch]

    async def aclose(self) -> None:
        """Close every connection."""
        await self._connections.aclose()

    async def _send_one(self, message: Message, now: datetime) -> Outcome:
        if message.target_kind != "token":
            return Rejected("target_not_supported", f"APNs reaches single devices, no {message.target_kind}")
        if not _TOKEN.fullmatch(message.target):
            # APNs would say the same of it, and no later message could fare better.
            return Gone("BadDeviceToken", "the token has characters that no token of APNs has")
        body = render(message)
        if isinstance(body, Rejected):
            return body
        began = time.monotonic()
        header = self._tokens.header()
        try:
            answer = await self._post(message, body, header)
            if answer.status == HTTPStatus.OK:
                return self._taken(answer)
            outcome = await self._outcome(answer, message, now)
            if outcome.code != "ExpiredProviderToken" or (anew := self._tokens.replace(header)) is None:
                return outcome
            # Both requests together keep within the time-out: leases reckon by it.
            async with asyncio.timeout(self._timeout - (time.monotonic() - began)):
                answer = await self._post(message, body, anew)
                if answer.status == HTTPStatus.OK:
                    return self._taken(answer)
                return await self._outcome(answer, message, now)
        except TimeoutError as error:
            return Retry("timeout", type(error).__name__)
        except PyreqwestError as error:
            return Retry("network_error", type(error).__name__)

    def _taken(self, answer: Response) -> Sent:
        self._proven = True
        return Sent(answer.get_header("apns-id"))

    async def _post(self, message: Message, body: bytes, authorization: str) -> Response:
        push_type = message.appearance.push_type
        delivery_id = str(message.delivery_id)
        request = (
            self._connections.next()
            .post(self._url + message.target)
            .header("authorization", authorization, is_sensitive=True)
            .header("apns-topic", f"{self._topic}.voip" if push_type == "voip" else self._topic)
            .header("apns-push-type", push_type)
            .header("apns-priority", "5" if push_type == "background" else "10")
            .header("apns-id", delivery_id)
            .header(
                "apns-collapse-id", collapse_id(message.collapse_key) if message.collapse_key else delivery_id
            )
        )
        if message.expires_at is not None:
            request = request.header("apns-expiration", str(int(message.expires_at.timestamp())))
        return await request.body_bytes(body).build().send()

    async def _outcome(
        self, answer: Response, message: Message, now: datetime
    ) -> Retry | Defer | Rejected | Gone:
        # An answer may quote what it was asked; the token must not end up in logs.
        body = bytes(await answer.bytes()).replace(message.target.encode(), b"[token]")
        if answer.status == HTTPStatus.GONE:
            # The device was known once: environment and topic are the right ones.
            self._proven = True
        return classify(
            answer.status,
            body,
            read_retry_after(answer.get_header("retry-after"), now),
            push_type=message.appearance.push_type,
            proven=self._proven,
        )
