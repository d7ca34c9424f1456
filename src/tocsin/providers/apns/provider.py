"""Apple Push Notification service, over HTTP/2 with a provider token."""

import time
from collections.abc import Callable
from datetime import datetime
from http import HTTPStatus
from typing import ClassVar

from tocsin.domain.delivery.message import Limits, Message
from tocsin.domain.delivery.outcome import Gone, Outcome, Rejected, Sent
from tocsin.providers.answers import Failure
from tocsin.providers.apns.answers import classify
from tocsin.providers.apns.provider_token import ProviderTokens
from tocsin.providers.apns.render import PAYLOAD_BYTES, message_fields, render, token_fault, type_headers
from tocsin.providers.apns.settings import ApnsSettings, Environment
from tocsin.providers.apns.signing_key import load_key
from tocsin.providers.http.h2.client import Http2Client
from tocsin.providers.http.h2.exchange import Exchange
from tocsin.providers.http.h2.header_fields import RequestHead
from tocsin.providers.http.http2_provider import Heads, Http2Provider
from tocsin.providers.http.reply import Reply

# A member of an enumeration is looked up by a call each time.
_OK = HTTPStatus.OK.value
_KNOWN = frozenset({_OK, HTTPStatus.GONE.value})

HOSTS: dict[Environment, str] = {
    "production": "https://api.push.apple.com",
    "sandbox": "https://api.sandbox.push.apple.com",
}


class ApnsProvider(Http2Provider):
    """Sends one message a request over a group of HTTP/2 connections."""

    name: ClassVar[str] = "apns"
    limits: ClassVar[Limits] = Limits(payload_bytes=PAYLOAD_BYTES, batch=1, ttl_seconds=2_592_000)

    def __init__(self, settings: ApnsSettings, *, clock: Callable[[], float] = time.time) -> None:
        key = load_key(settings.required("key_file"))
        settings.raise_faults()
        self._tokens = ProviderTokens(
            key, key_id=settings.required("key_id"), team_id=settings.required("team_id"), clock=clock
        )
        self._topic: str = settings.required("topic")
        self._proven = False
        self._heads = Heads(self._head)
        super().__init__(settings, Http2Client(settings.base_url or HOSTS[settings.environment], settings))
        # Of tokens every character is checked before.
        self._path_of = self._client.paths_below("/3/device/")

    async def prepare(self) -> None:
        """Sign the provider token ahead of the first message."""
        self._tokens.header()

    def credentials(self) -> str:
        """Return the header with the signed token."""
        return self._tokens.header()

    async def fresh_credentials(self, refused: str | None) -> str | None:
        """Sign anew; return None while Apple allows no newer token."""
        return self._tokens.replace(refused or "")

    def _post(self, message: Message, credentials: str, now: datetime) -> Exchange | Outcome:  # noqa: ARG002 - it expires by a header
        if message.target_kind != "token":
            return Rejected("target_not_supported", f"APNs reaches single devices, no {message.target_kind}")
        if token_fault(message.target):
            # APNs would answer the same to every message.
            return Gone("BadDeviceToken", "the token has characters that no token of APNs has")
        body = render(message)
        if isinstance(body, Rejected):
            return body
        head = self._heads.get(credentials, message.appearance.push_type)
        return self._client.post(head, self._path_of(message.target), body, message_fields(message))

    def _head(self, authorization: str, push_type: str) -> RequestHead:
        return self._client.head({"authorization": authorization, **type_headers(push_type, self._topic)})

    def _read(self, message: Message, reply: Reply, now: datetime) -> Outcome:
        if reply.status in _KNOWN:
            # Either way APNs knows or knew the device: environment and topic are the right ones.
            self._proven = True
        if reply.status == _OK:
            return Sent(reply.headers.get("apns-id"))
        return classify(
            reply.status,
            # An answer may quote what it was asked; the token must not end up in logs.
            reply.body.replace(message.target.encode(), b"[token]"),
            reply.retry_after(now),
            push_type=message.appearance.push_type,
            proven=self._proven,
        )

    def _is_refused(self, reply: Reply, failure: Failure) -> bool:  # noqa: ARG002 - the reason decides
        return failure.code == "ExpiredProviderToken"
