"""Webhooks: signed HTTPS requests to endpoints of other people, in the form of Standard Webhooks."""

import base64
import hmac
import secrets
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import Meta
from pyreqwest.exceptions import PyreqwestError
from pyreqwest.http import Url

from tocsin.domain.delivery.message import Limits, Message
from tocsin.domain.delivery.outcome import Outcome, Rejected, Retry, Sent
from tocsin.domain.delivery.retry_after import read_retry_after
from tocsin.domain.faults import Fault
from tocsin.domain.ids import NotificationId
from tocsin.providers.http.guarded_client import GuardedConnections
from tocsin.providers.http.ssrf_guard import Guard, HostRefusedError, HostUnknownError
from tocsin.providers.webhook.answers import classify, is_taken

PREVIOUS_KEY_LIVES = timedelta(days=1)
"""How long a key that was replaced goes on signing beside the new one."""

_KEY_PREFIX = "whsec_"
_KEY_BYTES = 32
_SHORTEST_KEY = 24
_MILLISECONDS_SHIFT = 80

_encoder = msgspec.json.Encoder()


class WebhookSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How endpoints are called; `allow_private_addresses` lets them lie within one's own network."""

    enabled: bool = False
    max_concurrency: Annotated[int, Meta(ge=1, le=10_000)] = 50
    connect_timeout: Annotated[float, Meta(gt=0, le=60)] = 5.0
    timeout: Annotated[float, Meta(gt=0, le=300)] = 15.0
    ca_file: Path | None = None
    allow_private_addresses: bool = False
    user_agent: str = "Tocsin"


def webhook_settings_faults(settings: WebhookSettings) -> Iterator[Fault]:
    """Name what cannot be used."""
    agent = settings.user_agent
    if not agent.strip() or not agent.isascii() or not agent.isprintable():
        message = f"{agent!r} must be printable ASCII text, such as Tocsin or Example-Shop/2.0"
        yield Fault(field="webhook.user_agent", code="invalid", message=message)
    if settings.ca_file is not None and not settings.ca_file.is_file():
        yield Fault(field="webhook.ca_file", code="missing", message=f"{settings.ca_file} is not a file")


def new_secret() -> str:
    """Make the key that an endpoint's messages are signed with."""
    return _KEY_PREFIX + base64.b64encode(secrets.token_bytes(_KEY_BYTES)).decode()


def rotated(secret: str, new_key: str, now: datetime) -> str:
    """Put a new key before the present one, which goes on for a day; one replaced before ends at once.

    A secret is kept as its keys with spaces between; behind a replaced one stand an @ and the second it ends.
    """
    present = secret.split(" ", maxsplit=1)[0]
    if not present:
        return new_key
    return f"{new_key} {present}@{int((now + PREVIOUS_KEY_LIVES).timestamp())}"


def signatures(secret: str, message_id: str, body: bytes, now: datetime) -> str:
    """Sign with every key that is in force.

    Raises ValueError for a secret that holds none.
    """
    signed = b"%b.%d.%b" % (message_id.encode(), int(now.timestamp()), body)
    digests = [hmac.digest(key, signed, "sha256") for key in _keys(secret, now)]
    return " ".join(f"v1,{base64.b64encode(digest).decode()}" for digest in digests)


def _keys(secret: str, now: datetime) -> Iterator[bytes]:
    for entry in secret.split(" "):
        text, _, end = entry.partition("@")
        if end and now.timestamp() >= int(end):
            continue
        key = base64.b64decode(text.removeprefix(_KEY_PREFIX), validate=True)
        if not text.startswith(_KEY_PREFIX) or len(key) < _SHORTEST_KEY:
            raise ValueError("a key begins with whsec_ and holds 24 bytes or more")
        yield key


def render(message: Message, now: datetime) -> bytes | Rejected:
    """Write a message as Standard Webhooks has it; every attempt writes the same."""
    data: dict[str, Any] = {
        "notification_id": str(message.notification_id),
        "delivery_id": str(message.delivery_id),
        "type": message.type,
        "payload": message.payload,
    }
    optional = {"title": message.title, "body": message.body, "locale": message.locale}
    data |= {name: value for name, value in optional.items() if value}
    accepted = _accepted_at(message.notification_id, now)
    body = _encoder.encode({"type": message.type, "timestamp": accepted, "data": data})
    limit = WebhookProvider.limits.payload_bytes
    if len(body) > limit:
        return Rejected("payload_too_large", f"{len(body)} bytes; a webhook holds {limit}")
    return body


def _accepted_at(notification_id: NotificationId, now: datetime) -> datetime:
    """Read the moment a notification was accepted out of its id."""
    if notification_id.version != 7:  # noqa: PLR2004 - the version that begins with milliseconds of Unix time
        return now
    milliseconds = notification_id.int >> _MILLISECONDS_SHIFT
    return datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=milliseconds)


class WebhookProvider:
    """Posts each message to its own endpoint and never where a redirect leads."""

    name: ClassVar[str] = "webhook"
    limits: ClassVar[Limits] = Limits(payload_bytes=262_144, batch=1, ttl_seconds=0)

    def __init__(self, settings: WebhookSettings) -> None:
        self._concurrency = settings.max_concurrency
        self._user_agent = settings.user_agent
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
        """Name the host of an endpoint."""
        try:
            return Url(target).host_str or ""
        except ValueError:
            return ""

    async def prepare(self) -> None:
        """Do nothing: which endpoints there are shows in the messages alone."""

    async def send(self, batch: Sequence[Message], *, now: datetime) -> Sequence[Outcome]:
        """Hand over each message of the batch."""
        return [await self._send_one(message, now) for message in batch]

    async def aclose(self) -> None:
        """Close every connection."""
        await self._connections.aclose()

    async def _send_one(self, message: Message, now: datetime) -> Outcome:
        if fault := self._guard.fault(message.target):
            return Rejected("address_refused", f"the endpoint's URL {fault}")
        body = render(message, now)
        if isinstance(body, Rejected):
            return body
        headers = self._headers(message, body, now)
        if isinstance(headers, Rejected):
            return headers
        try:
            reply = await self._connections.post(message.target, headers, body)
        except HostRefusedError as error:
            # What a name stands for may be mended, so the delivery is not lost for it.
            return Retry("address_refused", f"the endpoint's URL {error}", speaks_against="target")
        except HostUnknownError as error:
            return Retry("network_error", str(error))
        except TimeoutError as error:
            return Retry("timeout", type(error).__name__)
        except PyreqwestError as error:
            return Retry("network_error", type(error).__name__)
        if is_taken(reply.status):
            return Sent(str(message.delivery_id))
        return classify(reply.status, read_retry_after(reply.headers.get("retry-after"), now))

    def _headers(self, message: Message, body: bytes, now: datetime) -> dict[str, str] | Rejected:
        message_id = str(message.delivery_id)
        try:
            signature = signatures(message.secret or "", message_id, body, now)
        except ValueError:
            return Rejected("secret_unusable", "the endpoint has no secret to sign with: rotate it")
        return {
            "content-type": "application/json",
            "user-agent": self._user_agent,
            "webhook-id": message_id,
            "webhook-timestamp": str(int(now.timestamp())),
            "webhook-signature": signature,
        }
