"""Firebase Cloud Messaging, HTTP v1."""

import asyncio
import time
from collections.abc import Awaitable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from http import HTTPStatus
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeVar

import msgspec
from msgspec import Meta
from pyreqwest.exceptions import PyreqwestError
from pyreqwest.request import ConsumedRequest
from pyreqwest.response import Response

from tocsin.domain.delivery.message import DEFAULT_APPEARANCE, Limits, Message, PushAppearance
from tocsin.domain.delivery.outcome import Defer, Gone, Outcome, Rejected, Retry, Sent
from tocsin.domain.delivery.retry_after import read_retry_after
from tocsin.domain.errors import ProviderSetupError
from tocsin.domain.faults import Fault
from tocsin.providers.fcm.answers import ALARM_REST, classify
from tocsin.providers.fcm.google_auth import AccessTokens, TokenUnavailableError
from tocsin.providers.fcm.render import add_appearance, appearance_size
from tocsin.providers.http.client import Connections

T = TypeVar("T")

SCOPE = "https://www.googleapis.com/auth/firebase.messaging"
BROADCAST_BYTES = 2_048

_BROADCASTS = frozenset({"topic", "condition"})

_encoder = msgspec.json.Encoder()


class FcmSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How FCM is reached; without a credentials file it is not used."""

    credentials_file: Path | None = None
    project_id: str | None = None
    base_url: str = "https://fcm.googleapis.com"
    max_concurrency: Annotated[int, Meta(ge=1, le=10_000)] = 20
    connect_timeout: Annotated[float, Meta(gt=0, le=60)] = 5.0
    timeout: Annotated[float, Meta(gt=0, le=300)] = 10.0
    ca_file: Path | None = None


def fcm_settings_faults(settings: FcmSettings) -> Iterator[Fault]:
    """Find what cannot work in the settings of FCM."""
    for name in ("credentials_file", "ca_file"):
        file = getattr(settings, name)
        if file and not file.is_file():
            yield Fault(field=f"fcm.{name}", code="missing", message=f"{file} is not a file")
    if not settings.base_url.startswith(("https://", "http://")):
        message = "must start with https:// (or http:// for a sandbox)"
        yield Fault(field="fcm.base_url", code="invalid", message=message)


class _Taken(msgspec.Struct):
    name: str


_taken = msgspec.json.Decoder(_Taken)


def render(message: Message, now: datetime) -> bytes | Rejected:
    """Write a message as FCM wants it.

    A tag, unlike a collapse key, has no limit of four a device: a repeat replaces what
    the phone shows, and nothing that waits for an offline phone is lost.
    """
    tag = message.collapse_key or str(message.delivery_id)
    android: dict[str, Any] = {"priority": "HIGH", "notification": {"tag": tag}}
    apns_headers = {"apns-collapse-id": tag}
    if message.collapse_key:
        android["collapse_key"] = message.collapse_key
    if message.expires_at:
        seconds = max(0, int((message.expires_at - now).total_seconds()))
        android["ttl"] = f"{min(seconds, FcmProvider.limits.ttl_seconds)}s"
        apns_headers["apns-expiration"] = str(int(message.expires_at.timestamp()))
    content: dict[str, Any] = {
        message.target_kind: message.target,
        "notification": {"title": message.title, "body": message.body},
        "data": message.data,
        "android": android,
        "apns": {"headers": apns_headers},
    }
    if message.appearance is not DEFAULT_APPEARANCE:
        add_appearance(content, message.appearance)
    body = _encoder.encode({"message": content})
    most = BROADCAST_BYTES if message.target_kind in _BROADCASTS else FcmProvider.limits.payload_bytes
    # The payload is a part of the body, so a small body needs no measuring.
    if len(body) > most and (size := _payload_size(content, message.appearance)) > most:
        return Rejected("payload_too_large", f"{size} bytes; FCM takes {most} for a {message.target_kind}")
    return body


def _payload_size(content: dict[str, Any], appearance: PushAppearance) -> int:
    texts = [*content.get("notification", {}).values(), *content["data"].keys(), *content["data"].values()]
    return sum(len(text.encode()) for text in texts) + appearance_size(appearance)


class FcmProvider:
    """Sends one message a request over a group of HTTP/2 connections."""

    name: ClassVar[str] = "fcm"
    limits: ClassVar[Limits] = Limits(payload_bytes=4_096, batch=1, ttl_seconds=2_419_200)

    def __init__(self, settings: FcmSettings) -> None:
        if settings.credentials_file is None:
            raise ProviderSetupError("FCM needs TOCSIN_FCM__CREDENTIALS_FILE.")
        self._tokens = AccessTokens(settings.credentials_file, SCOPE, settings.ca_file)
        project = settings.project_id or self._tokens.project_id
        if not project:
            raise ProviderSetupError(
                "The service account names no project: set TOCSIN_FCM__PROJECT_ID to your Firebase project."
            )
        self._url = f"{settings.base_url.rstrip('/')}/v1/projects/{project}/messages:send"
        self._concurrency = settings.max_concurrency
        self._timeout = settings.timeout
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
        """Fetch the access token ahead of the first message; what goes wrong shows at the first send."""
        with suppress(TokenUnavailableError):
            await self._tokens.get()

    async def send(self, batch: Sequence[Message], *, now: datetime) -> Sequence[Outcome]:
        """Hand over each message of the batch."""
        return [await self._send_one(message, now) for message in batch]

    async def aclose(self) -> None:
        """Close every connection."""
        await self._connections.aclose()
        self._tokens.close()

    async def _send_one(self, message: Message, now: datetime) -> Outcome:
        body = render(message, now)
        if isinstance(body, Rejected):
            return body
        began = time.monotonic()
        try:
            token = self._tokens.current
            if token is None:
                return await self._in_time(began, self._with_new_token(body, None, message, now))
            answer = await self._request(body, token).send()
            if answer.status == HTTPStatus.OK:
                return Sent(_taken.decode(await answer.bytes()).name)
            outcome = await _outcome(answer, message, now)
            if answer.status != HTTPStatus.UNAUTHORIZED or outcome.code == "THIRD_PARTY_AUTH_ERROR":
                return outcome
            return await self._in_time(began, self._with_new_token(body, token, message, now))
        except TokenUnavailableError as error:
            if error.lasting:
                return Defer("credentials_refused", ALARM_REST, str(error), alarm=True)
            return Retry("token_unavailable", str(error))
        except TimeoutError as error:
            return Retry("timeout", type(error).__name__)
        except PyreqwestError as error:
            return Retry("network_error", type(error).__name__)
        except msgspec.DecodeError:
            return Retry("unreadable_answer", "FCM answered 200 with something else than its JSON")

    async def _with_new_token(
        self, body: bytes, refused: str | None, message: Message, now: datetime
    ) -> Outcome:
        """Fetch an access token, other than the one refused, and send with it."""
        token = await (self._tokens.get() if refused is None else self._tokens.replace(refused))
        answer = await self._request(body, token).send()
        if answer.status == HTTPStatus.OK:
            return Sent(_taken.decode(await answer.bytes()).name)
        return await _outcome(answer, message, now)

    async def _in_time(self, began: float, work: Awaitable[T]) -> T:
        """Keep what a send needs besides its one request within the time-out: leases reckon by it."""
        async with asyncio.timeout(self._timeout - (time.monotonic() - began)):
            return await work

    def _request(self, body: bytes, token: str) -> ConsumedRequest:
        return (
            self._connections.next()
            .post(self._url)
            .header("authorization", f"Bearer {token}", is_sensitive=True)
            .header("content-type", "application/json")
            .body_bytes(body)
            .build()
        )


async def _outcome(answer: Response, message: Message, now: datetime) -> Retry | Defer | Rejected | Gone:
    body = bytes(await answer.bytes())
    if message.target_kind not in _BROADCASTS:
        # An answer may quote what it was asked; the token must not end up in logs.
        body = body.replace(message.target.encode(), b"[token]")
    return classify(answer.status, body, read_retry_after(answer.get_header("retry-after"), now))
