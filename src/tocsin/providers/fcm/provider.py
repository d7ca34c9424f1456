"""Firebase Cloud Messaging, HTTP v1."""

from contextlib import suppress
from datetime import datetime
from http import HTTPStatus
from typing import ClassVar

import msgspec

from tocsin.domain.delivery.message import Limits, Message
from tocsin.domain.delivery.outcome import Defer, Outcome, Rejected, Retry, Sent
from tocsin.domain.errors import ProviderSetupError
from tocsin.providers.answers import ALARM_REST, Failure
from tocsin.providers.fcm.answers import classify
from tocsin.providers.fcm.google_auth import AccessTokens, TokenUnavailableError
from tocsin.providers.fcm.render import LONGEST_TTL, PAYLOAD_BYTES, TOPIC_KINDS, render
from tocsin.providers.fcm.settings import FcmSettings
from tocsin.providers.http.h2.client import Http2Client
from tocsin.providers.http.h2.exchange import Exchange
from tocsin.providers.http.h2.header_fields import RequestHead
from tocsin.providers.http.http2_provider import Heads, Http2Provider
from tocsin.providers.http.reply import Reply

# A member of an enumeration is looked up by a call each time.
_OK, _UNAUTHORIZED = HTTPStatus.OK.value, HTTPStatus.UNAUTHORIZED.value

SCOPE = "https://www.googleapis.com/auth/firebase.messaging"

_UNREADABLE = Retry("unreadable_answer", "FCM answered 200 with something else than its JSON", uncertain=True)


class _Taken(msgspec.Struct):
    name: str


_taken = msgspec.json.Decoder(_Taken)


class FcmProvider(Http2Provider):
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
        client = Http2Client(settings.base_url, settings)
        super().__init__(settings, client)
        self._path = client.path(f"/v1/projects/{project}/messages:send")
        self._heads = Heads(self._head)

    async def prepare(self) -> None:
        """Fetch the access token ahead of the first message; what goes wrong shows at the first send."""
        with suppress(TokenUnavailableError):
            await self._tokens.get()

    async def aclose(self) -> None:
        """Close every connection."""
        await super().aclose()
        self._tokens.close()

    def credentials(self) -> str | None:
        """Return the current token, if there is one."""
        return self._tokens.current

    async def fresh_credentials(self, refused: str | None) -> str | Outcome:
        """Fetch a token unless another message did since; return an outcome if that fails."""
        try:
            return await self._tokens.replace(refused)
        except TokenUnavailableError as error:
            if error.lasting:
                return Defer("credentials_refused", ALARM_REST, str(error), alarm=True)
            return Retry("token_unavailable", str(error))

    def _post(self, message: Message, credentials: str, now: datetime) -> Exchange | Outcome:
        body = render(message, now)
        if isinstance(body, Rejected):
            return body
        return self._client.post(self._heads.get(credentials), b"", body)

    def _head(self, token: str, _: str) -> RequestHead:
        headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
        return self._client.head(headers).at(self._path)

    def _read(self, message: Message, reply: Reply, now: datetime) -> Outcome:
        body = reply.body
        if reply.status == _OK:
            try:
                return Sent(_taken.decode(body).name)
            except (msgspec.DecodeError, UnicodeDecodeError):
                return _UNREADABLE
        if message.target_kind not in TOPIC_KINDS:
            # An answer may quote what it was asked; the token must not end up in logs.
            body = body.replace(message.target.encode(), b"[token]")
        return classify(reply.status, body, reply.retry_after(now))

    def _is_refused(self, reply: Reply, failure: Failure) -> bool:
        return reply.status == _UNAUTHORIZED and isinstance(failure, Defer) and failure.pauses
