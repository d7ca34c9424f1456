"""Apple Push Notification service, over HTTP/2 with a provider token."""

import time
from collections.abc import Callable
from datetime import datetime
from http import HTTPStatus
from typing import ClassVar

from tocsin.domain.delivery.message import Limits, Message
from tocsin.domain.delivery.outcome import Gone, Outcome, Rejected, Sent
from tocsin.providers.apns.answers import classify
from tocsin.providers.apns.provider_token import ProviderTokens, load_key
from tocsin.providers.apns.render import PAYLOAD_BYTES, headers, render, token_fault
from tocsin.providers.apns.settings import ApnsSettings, Environment
from tocsin.providers.http.client import Connections
from tocsin.providers.http.provider import HttpProvider

HOSTS: dict[Environment, str] = {
    "production": "https://api.push.apple.com",
    "sandbox": "https://api.sandbox.push.apple.com",
}


class ApnsProvider(HttpProvider):
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
        self._url = f"{(settings.base_url or HOSTS[settings.environment]).rstrip('/')}/3/device/"
        self._proven = False
        super().__init__(settings, Connections(settings))

    async def prepare(self) -> None:
        """Sign the provider token ahead of the first message."""
        self._tokens.header()

    async def _send_one(self, message: Message, now: datetime) -> Outcome:
        if message.target_kind != "token":
            return Rejected("target_not_supported", f"APNs reaches single devices, no {message.target_kind}")
        if token_fault(message.target):
            # APNs would answer the same to every message.
            return Gone("BadDeviceToken", "the token has characters that no token of APNs has")
        body = render(message)
        if isinstance(body, Rejected):
            return body
        header = self._tokens.header()
        began = time.monotonic()
        outcome = await self._post(message, body, header, now)
        if isinstance(outcome, Sent) or outcome.code != "ExpiredProviderToken":
            return outcome
        fresh = self._tokens.replace(header)
        if fresh is None:
            return outcome
        async with self._rest_of_timeout(began):
            return await self._post(message, body, fresh, now)

    async def _post(self, message: Message, body: bytes, authorization: str, now: datetime) -> Outcome:
        rendered = {**headers(message, self._topic), "authorization": authorization}
        reply = await self._connections.post(self._url + message.target, rendered, body)
        if reply.status in {HTTPStatus.OK, HTTPStatus.GONE}:
            # Either way APNs knows or knew the device: environment and topic are the right ones.
            self._proven = True
        if reply.status == HTTPStatus.OK:
            return Sent(reply.headers.get("apns-id"))
        return classify(
            reply.status,
            # An answer may quote what it was asked; the token must not end up in logs.
            reply.body.replace(message.target.encode(), b"[token]"),
            reply.retry_after(now),
            push_type=message.appearance.push_type,
            proven=self._proven,
        )
