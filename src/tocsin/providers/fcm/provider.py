"""Firebase Cloud Messaging, HTTP v1."""

import time
from collections.abc import Awaitable
from contextlib import suppress
from datetime import datetime
from http import HTTPStatus
from typing import ClassVar

import msgspec

from tocsin.domain.delivery.message import Limits, Message
from tocsin.domain.delivery.outcome import Defer, Outcome, Rejected, Retry, Sent
from tocsin.domain.errors import ProviderSetupError
from tocsin.providers.answers import ALARM_REST
from tocsin.providers.fcm.answers import classify
from tocsin.providers.fcm.google_auth import AccessTokens, TokenUnavailableError
from tocsin.providers.fcm.render import BROADCASTS, LONGEST_TTL, PAYLOAD_BYTES, render
from tocsin.providers.fcm.settings import FcmSettings
from tocsin.providers.http.client import Connections, Reply
from tocsin.providers.http.provider import HttpProvider

SCOPE = "https://www.googleapis.com/auth/firebase.messaging"


class _Taken(msgspec.Struct):
    name: str


class FcmProvider(HttpProvider):
    """Sends one message a request over a group of HTTP/2 connections."""

    name: ClassVar[str] = "fcm"
    limits: ClassVar[Limits] = Limits(payload_bytes=PAYLOAD_BYTES, batch=1, ttl_seconds=LONGEST_TTL)

    def __init__(self, settings: FcmSettings) -> None:
        self._tokens = AccessTokens(settings.required("credentials_file"), SCOPE, settings.ca_file)
        project = settings.project_id or self._tokens.project_id
        if not project:
            raise ProviderSetupError(
                "The service account names no project: set TOCSIN_FCM__PROJECT_ID to your Firebase project."
            )
        self._url = f"{settings.base_url.rstrip('/')}/v1/projects/{project}/messages:send"
        super().__init__(settings, Connections(settings))

    async def prepare(self) -> None:
        """Fetch the access token ahead of the first message; what goes wrong shows at the first send."""
        with suppress(TokenUnavailableError):
            await self._tokens.get()

    async def aclose(self) -> None:
        """Close every connection."""
        await super().aclose()
        self._tokens.close()

    async def _send_one(self, message: Message, now: datetime) -> Outcome:
        body = render(message, now)
        if isinstance(body, Rejected):
            return body
        began = time.monotonic()
        token = self._tokens.current
        try:
            if token is not None:
                reply = await self._post(body, token)
                outcome = _outcome(reply, message, now)
                if not _is_token_refused(reply, outcome):
                    return outcome
            async with self._rest_of_timeout(began):
                renewed = await self._tokens.replace(token)
                return _outcome(await self._post(body, renewed), message, now)
        except TokenUnavailableError as error:
            if error.lasting:
                return Defer("credentials_refused", ALARM_REST, str(error), alarm=True)
            return Retry("token_unavailable", str(error))
        except msgspec.DecodeError:
            return Retry(
                "unreadable_answer", "FCM answered 200 with something else than its JSON", uncertain=True
            )

    def _post(self, body: bytes, token: str) -> Awaitable[Reply]:
        headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
        return self._connections.post(self._url, headers, body)


def _is_token_refused(reply: Reply, outcome: Outcome) -> bool:
    return reply.status == HTTPStatus.UNAUTHORIZED and isinstance(outcome, Defer) and outcome.pauses


def _outcome(reply: Reply, message: Message, now: datetime) -> Outcome:
    body = reply.body
    if reply.status == HTTPStatus.OK:
        return Sent(msgspec.json.decode(body, type=_Taken).name)
    if message.target_kind not in BROADCASTS:
        # An answer may quote what it was asked; the token must not end up in logs.
        body = body.replace(message.target.encode(), b"[token]")
    return classify(reply.status, body, reply.retry_after(now))
