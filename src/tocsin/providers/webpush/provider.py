"""Web Push: messages to browsers, by the push service that each browser chose."""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import lru_cache, partial
from http import HTTPStatus
from typing import ClassVar

import msgspec
from pyreqwest.http import Url

from tocsin.domain.delivery.message import Limits, Message
from tocsin.domain.delivery.outcome import Gone, Outcome, Rejected, Retry, Sent
from tocsin.domain.people.push_subscription import SubscriptionFaultError, endpoint_of, read_subscription
from tocsin.providers.http.guarded_http2 import GuardedHttp2
from tocsin.providers.http.provider import HttpProvider
from tocsin.providers.http.reply import Reply
from tocsin.providers.http.ssrf_guard import Guard, HostRefusedError
from tocsin.providers.webpush.answers import KEY_MISMATCH, TAKEN, classify
from tocsin.providers.webpush.browser import MOST_BROWSERS, Browser, read_browser
from tocsin.providers.webpush.crypto import PLAINTEXT_BYTES, Vapid, VapidKeys, encrypt
from tocsin.providers.webpush.endpoint_guard import EndpointGuard
from tocsin.providers.webpush.render import LONGEST_TTL, headers, render
from tocsin.providers.webpush.settings import WebPushSettings

_MESSAGE_ID_CHARACTERS = 255
_SEPARATORS = re.compile(r"[/?&=]")
_SECRET_CHARACTERS = 8
_shape = Guard(allow_private=True)
_UNSURE = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN})


class _Prepared(msgspec.Struct, frozen=True):
    message: Message
    browser: Browser
    body: bytes


class WebPushProvider(HttpProvider):
    """Encrypts each message, which takes some 0.1 ms, and posts it to the push service of its browser."""

    name: ClassVar[str] = "webpush"
    limits: ClassVar[Limits] = Limits(payload_bytes=PLAINTEXT_BYTES, batch=1, ttl_seconds=LONGEST_TTL)

    def __init__(self, settings: WebPushSettings, private_key_pem: str) -> None:
        self._vapid = VapidKeys([private_key_pem], settings.required("subject"))
        self._guard = EndpointGuard(allow_private=settings.allow_private_addresses)
        # People who get one message soon get another.
        self._browser = lru_cache(MOST_BROWSERS)(partial(read_browser, guard=self._guard))
        self.concurrency_per_host = settings.per_host
        self._connections = GuardedHttp2(self._guard, settings)
        super().__init__(settings, self._connections)

    def use_keys(self, private_keys: Sequence[str]) -> None:
        """Replace the keys that sign, newest first."""
        self._vapid.use(private_keys)

    def host_of(self, target: str) -> str:
        """Return the host and port of a subscription's push service; empty if it cannot be called."""
        endpoint = endpoint_of(target)
        return "" if endpoint is None or self._guard.fault(endpoint) else Url(endpoint).authority

    async def _send_one(self, message: Message, now: datetime) -> Outcome:
        prepared = self._prepare(message)
        if not isinstance(prepared, _Prepared):
            return prepared
        first, *others = self._vapid.candidates(message.sender_key)
        outcome = await self._post(prepared, first, now)
        for vapid in others:
            if not (isinstance(outcome, Rejected) and outcome.code == KEY_MISMATCH):
                break
            # A page may have subscribed with a key that it had fetched before a rotation.
            outcome = await self._post(prepared, vapid, now)
        return outcome

    def _prepare(self, message: Message) -> _Prepared | Gone | Rejected:
        try:
            browser = self._browser(message.target)
        except SubscriptionFaultError as error:
            # No message can ever reach it: the browser has to subscribe anew.
            return Gone("invalid_subscription", f"the subscription {error}")
        plaintext = render(message)
        if isinstance(plaintext, Rejected):
            return plaintext
        body = encrypt(plaintext, browser.key, browser.auth, browser_point=browser.point)
        return _Prepared(message, browser, body)

    async def _post(self, prepared: _Prepared, vapid: Vapid, now: datetime) -> Outcome:
        browser = prepared.browser
        rendered = headers(prepared.message, now)
        rendered["authorization"] = vapid.authorization(browser.origin)
        try:
            reply = await self._connections.post(browser.endpoint, rendered, prepared.body)
        except HostRefusedError as error:
            # DNS may be corrected later, so the subscription is not lost for it.
            return Retry("address_refused", f"the push service {error}")
        if reply.status in TAKEN:
            return Sent(_message_id(reply.headers, prepared))
        if reply.status in _UNSURE:
            vapid.forget(browser.origin)
        return _refusal(reply, browser.endpoint, now)


def token_fault(token: str) -> str | None:
    """Return what is wrong with a subscription that somebody registers."""
    try:
        endpoint = read_subscription(token).endpoint
    except SubscriptionFaultError as error:
        return str(error)
    # Whether an address may be private is a setting, which sending goes by.
    fault = _shape.fault(endpoint)
    return f"has an endpoint that {fault}" if fault else None


def _refusal(reply: Reply, endpoint: str, now: datetime) -> Outcome:
    # An answer may quote what it was asked; the endpoint must not end up in logs.
    text = reply.body.decode(errors="replace")
    for part in _SEPARATORS.split(endpoint):
        if len(part) >= _SECRET_CHARACTERS:
            text = text.replace(part, "[endpoint]")
    printable = "".join(character if character.isprintable() else " " for character in text)
    return classify(reply.status, printable, reply.retry_after(now))


def _message_id(given: Mapping[str, str], prepared: _Prepared) -> str:
    """Return the push service's id of a message: the end of its Location, or a header of its own."""
    location = given.get("location", "").rstrip("/").rpartition("/")[2]
    if location in prepared.browser.endpoint:
        location = ""
    name = location or given.get("apns-id") or given.get("x-wns-msg-id") or str(prepared.message.delivery_id)
    return name[:_MESSAGE_ID_CHARACTERS]
