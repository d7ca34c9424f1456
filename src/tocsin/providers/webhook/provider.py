"""Webhooks: signed HTTPS requests to endpoints of other people, in the form of Standard Webhooks."""

from datetime import datetime
from typing import ClassVar

from pyreqwest.http import Url

from tocsin.domain.delivery.message import Limits, Message
from tocsin.domain.delivery.outcome import Outcome, Rejected, Retry, Sent
from tocsin.providers.http.guarded_client import GuardedConnections
from tocsin.providers.http.provider import HttpProvider
from tocsin.providers.http.ssrf_guard import Guard, HostRefusedError
from tocsin.providers.webhook.answers import classify, is_taken
from tocsin.providers.webhook.render import PAYLOAD_BYTES, render
from tocsin.providers.webhook.settings import WebhookSettings
from tocsin.providers.webhook.signing import signatures


class WebhookProvider(HttpProvider):
    """Posts each message to its own endpoint and follows no redirect."""

    name: ClassVar[str] = "webhook"
    limits: ClassVar[Limits] = Limits(payload_bytes=PAYLOAD_BYTES, batch=1, ttl_seconds=0)

    def __init__(self, settings: WebhookSettings) -> None:
        self._user_agent = settings.user_agent
        self._guard = Guard(allow_private=settings.allow_private_addresses)
        self.concurrency_per_host = settings.per_host
        self._connections = GuardedConnections(self._guard, settings)
        super().__init__(settings, self._connections)

    def host_of(self, target: str) -> str:
        """Return the host of an endpoint; empty if it cannot be called."""
        return "" if self._guard.fault(target) else Url(target).host_str or ""

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
            # DNS may be corrected later, so the delivery is not lost for it.
            return Retry("address_refused", f"the endpoint's URL {error}", speaks_against="target")
        if is_taken(reply.status):
            return Sent(str(message.delivery_id))
        return classify(reply.status, reply.retry_after(now))

    def _headers(self, message: Message, body: bytes, now: datetime) -> dict[str, str] | Rejected:
        message_id = str(message.delivery_id)
        try:
            signature = signatures(message.secret or "", message_id, body, now)
        except ValueError:
            return Rejected("secret_unusable", "the endpoint has no secret to sign with: rotate it")
        traced = {"traceparent": message.traceparent} if message.traceparent else {}
        return {
            **traced,
            "content-type": "application/json",
            "user-agent": self._user_agent,
            "webhook-id": message_id,
            "webhook-timestamp": str(int(now.timestamp())),
            "webhook-signature": signature,
        }
