"""Web Push: messages to browsers, by the push service that each browser chose."""

import asyncio
import hashlib
import re
from base64 import urlsafe_b64encode
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from http import HTTPStatus
from pathlib import Path
from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import Meta
from pyreqwest.exceptions import PyreqwestError

from tocsin.domain.delivery.message import Limits, Message
from tocsin.domain.delivery.outcome import Gone, Outcome, Rejected, Retry, Sent
from tocsin.domain.delivery.retry_after import read_retry_after
from tocsin.domain.errors import ProviderSetupError
from tocsin.domain.faults import Fault
from tocsin.providers.http.guarded_client import GuardedConnections, Reply
from tocsin.providers.http.ssrf_guard import Guard, HostRefusedError, HostUnknownError
from tocsin.providers.webpush.answers import TAKEN, classify
from tocsin.providers.webpush.crypto import PLAINTEXT_BYTES, Vapid, encrypt
from tocsin.providers.webpush.subscription import (
    Subscription,
    SubscriptionFaultError,
    host_of,
    read_subscription,
)

_TOPIC = re.compile(r"[A-Za-z0-9_-]{1,32}")
_TOPIC_CHARACTERS = 32
_MESSAGE_ID_CHARACTERS = 255
_SEPARATORS = re.compile(r"[/?&=]")
_SECRET_CHARACTERS = 8
_ENCRYPTED_AT_ONCE = 3
_UNSURE = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN})
_encoder = msgspec.json.Encoder()


class WebPushSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How browsers are reached. Without a key file, the key made on the first start and kept is used.

    `subject` is where a push service finds whoever runs this: an address as mailto:, or a page as https:.
    """

    enabled: bool = False
    subject: str | None = None
    private_key_file: Path | None = None
    max_concurrency: Annotated[int, Meta(ge=1, le=10_000)] = 50
    connect_timeout: Annotated[float, Meta(gt=0, le=60)] = 5.0
    timeout: Annotated[float, Meta(gt=0, le=300)] = 10.0
    ca_file: Path | None = None
    allow_private_addresses: bool = False


def webpush_settings_faults(settings: WebPushSettings) -> Iterator[Fault]:
    """Name what is missing or contradicts itself."""
    field = "webpush.subject"
    if not settings.enabled:
        return
    if settings.subject is None:
        message = "is required: push services want to know whom to ask, as mailto:you@example.com"
        yield Fault(field=field, code="missing", message=message)
    elif not re.fullmatch(r"mailto:[^@\s]+@[^@\s]+\.[^@\s]+|https://[^\s/]+\.[^\s]+", settings.subject):
        message = f"{settings.subject!r} must be mailto: and an address, or https:// and a page"
        yield Fault(field=field, code="invalid", message=message)
    if settings.ca_file is not None and not settings.ca_file.is_file():
        yield Fault(field="webpush.ca_file", code="missing", message=f"{settings.ca_file} is not a file")


def read_private_key_file(path: Path) -> str:
    """Read the key that a setting names."""
    try:
        return path.read_text("ascii")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise ProviderSetupError(
            f"TOCSIN_WEBPUSH__PRIVATE_KEY_FILE={path} cannot be read: {reason}"
        ) from None


def render(message: Message) -> bytes | Rejected:
    """Write what the page's service worker reads, in the names of the browser's own notifications."""
    appearance = message.appearance
    content: dict[str, Any] = {
        "title": message.title,
        "body": message.body,
        "tag": message.collapse_key or str(message.delivery_id),
        "data": {**message.data, **_given(deep_link=appearance.deep_link, route=appearance.route)},
    }
    # An icon may be a drawable of an Android app, and a deep link a place in an app: nothing to a browser.
    content |= _given(
        icon=_web_address(appearance.icon),
        image=appearance.image,
        badge=appearance.badge,
        url=_web_address(appearance.deep_link),
        lang=message.locale,
    )
    if appearance.severity != "info":
        content["severity"] = appearance.severity
    if appearance.push_type == "background":
        content["silent"] = True
    plaintext = _encoder.encode(content)
    if len(plaintext) > PLAINTEXT_BYTES:
        return Rejected("payload_too_large", f"{len(plaintext)} bytes; a browser takes {PLAINTEXT_BYTES}")
    return plaintext


def _given(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _web_address(text: str | None) -> str | None:
    return text if text and text.startswith("https://") else None


def headers(message: Message, now: datetime) -> dict[str, str]:
    """Write how the push service shall treat a message while the browser is away.

    Only a collapse key becomes a topic. FCM, which serves some browsers, keeps four collapse keys a device;
    should it count topics so, a topic for each message would lose messages.
    """
    ttl = WebPushProvider.limits.ttl_seconds
    if message.expires_at:
        ttl = min(max(0, int((message.expires_at - now).total_seconds())), ttl)
    written = {
        "ttl": str(ttl),
        "urgency": _urgency(message),
        "content-encoding": "aes128gcm",
        "content-type": "application/octet-stream",
    }
    if message.collapse_key:
        written["topic"] = _topic(message.collapse_key)
    return written


def _urgency(message: Message) -> str:
    if message.appearance.push_type == "background":
        return "low"
    return "normal" if message.appearance.severity == "info" else "high"


def _topic(collapse_key: str) -> str:
    if _TOPIC.fullmatch(collapse_key):
        return collapse_key
    return urlsafe_b64encode(hashlib.sha256(collapse_key.encode()).digest()).decode()[:_TOPIC_CHARACTERS]


class _Prepared(msgspec.Struct, frozen=True):
    message: Message
    subscription: Subscription
    body: bytes


class WebPushProvider:
    """Sends each message of a batch to its own push service, all at once."""

    name: ClassVar[str] = "webpush"
    limits: ClassVar[Limits] = Limits(payload_bytes=PLAINTEXT_BYTES, batch=20, ttl_seconds=2_419_200)

    def __init__(self, settings: WebPushSettings, private_key_pem: str) -> None:
        if settings.subject is None:
            raise ProviderSetupError("Web Push needs TOCSIN_WEBPUSH__SUBJECT.")
        self._concurrency = settings.max_concurrency
        self._vapid = Vapid(private_key_pem, settings.subject)
        self._guard = Guard(allow_private=settings.allow_private_addresses)
        self._connections = GuardedConnections(
            self._guard,
            concurrency=settings.max_concurrency,
            connect_timeout=settings.connect_timeout,
            timeout=settings.timeout,
            ca_file=settings.ca_file,
        )

    @property
    def concurrency(self) -> int:
        """How many messages may be under way at once."""
        return self._concurrency

    def host_of(self, target: str) -> str:
        """Name the push service of a subscription."""
        return host_of(target)

    async def prepare(self) -> None:
        """Do nothing: which push services there are shows in the messages alone."""

    async def send(self, batch: Sequence[Message], *, now: datetime) -> Sequence[Outcome]:
        """Encrypt the whole batch, then hand over every message at once."""
        prepared = await self._prepare_all(batch)
        if len(prepared) == 1:
            return [await self._hand_over(prepared[0], now)]
        return await asyncio.gather(*(self._hand_over(each, now) for each in prepared))

    async def aclose(self) -> None:
        """Close every connection."""
        await self._connections.aclose()

    async def _prepare_all(self, batch: Sequence[Message]) -> Sequence[_Prepared | Gone | Rejected]:
        # Encrypting takes some 0.1 ms a message. A thread adds to that, but keeps the event loop free of the
        # milliseconds that a whole batch takes.
        if len(batch) <= _ENCRYPTED_AT_ONCE:
            return [self._prepare(message) for message in batch]
        return await asyncio.to_thread(lambda: [self._prepare(message) for message in batch])

    def _prepare(self, message: Message) -> _Prepared | Gone | Rejected:
        try:
            subscription = read_subscription(message.target, self._guard)
        except SubscriptionFaultError as error:
            # No browser ever gets what is sent to it, and none can mend it: it has to subscribe anew.
            return Gone("invalid_subscription", f"the subscription {error}")
        plaintext = render(message)
        if isinstance(plaintext, Rejected):
            return plaintext
        return _Prepared(message, subscription, encrypt(plaintext, subscription.key, subscription.auth))

    async def _hand_over(self, prepared: _Prepared | Gone | Rejected, now: datetime) -> Outcome:
        if not isinstance(prepared, _Prepared):
            return prepared
        message, subscription = prepared.message, prepared.subscription
        written = headers(message, now)
        written["authorization"] = self._vapid.authorization(subscription.origin)
        try:
            reply = await self._connections.post(subscription.endpoint, written, prepared.body)
        except HostRefusedError as error:
            # What a name stands for may be mended, so the subscription is not lost for it.
            return Retry("address_refused", f"the push service {error}")
        except HostUnknownError as error:
            return Retry("network_error", str(error))
        except TimeoutError as error:
            return Retry("timeout", type(error).__name__)
        except PyreqwestError as error:
            return Retry("network_error", type(error).__name__)
        if reply.status in TAKEN:
            return Sent(_message_id(reply.headers, prepared))
        if reply.status in _UNSURE:
            self._vapid.forget(subscription.origin)
        return _refusal(reply, prepared, now)


def _refusal(reply: Reply, prepared: _Prepared, now: datetime) -> Outcome:
    # An answer may quote what it was asked; the endpoint must not end up in logs.
    text = reply.body.decode(errors="replace")
    for part in _SEPARATORS.split(prepared.subscription.endpoint):
        if len(part) >= _SECRET_CHARACTERS:
            text = text.replace(part, "[endpoint]")
    printable = "".join(character if character.isprintable() else " " for character in text)
    return classify(reply.status, printable, read_retry_after(reply.headers.get("retry-after"), now))


def _message_id(given: Mapping[str, str], prepared: _Prepared) -> str:
    """Name the message as the push service does, by the end of its Location or by a header of its own."""
    location = given.get("location", "").rstrip("/").rpartition("/")[2]
    if location in prepared.subscription.endpoint:
        location = ""
    name = location or given.get("apns-id") or given.get("x-wns-msg-id") or str(prepared.message.delivery_id)
    return name[:_MESSAGE_ID_CHARACTERS]
