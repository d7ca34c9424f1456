"""The hub of SignalR: negotiation, connections, and what clients of Server-Sent Events post."""

import asyncio
import secrets
from collections.abc import Mapping
from typing import Any

from litestar.response.base import ASGIResponse

from tocsin.api.http.event_streams import EVENT_STREAM
from tocsin.api.http.problems import (
    BAD_REQUEST,
    BODY_TIMEOUT,
    BODY_TOO_LARGE,
    METHOD_NOT_ALLOWED,
    NOT_FOUND,
    POST_PENDING,
    ProblemError,
)
from tocsin.api.http.replies import reply
from tocsin.gateway.admission import Admission
from tocsin.gateway.requests import ConnectRequest
from tocsin.gateway.serving import SessionServer
from tocsin.gateway.sessions import TooManySessionsError
from tocsin.gateway.settings import GatewaySettings
from tocsin.gateway.signalr.connections import Connections
from tocsin.gateway.signalr.protocol import LARGEST_RECORD
from tocsin.gateway.signalr.transports import HubSseTransport, HubWebSocketTransport

LARGEST_POST = LARGEST_RECORD
POST_SECONDS = 5.0
NEWEST_VERSION = 1
ID_BYTES = 16
CORS = {
    # The stock client asks for it in browsers, though nothing here depends on cookies.
    "Access-Control-Allow-Credentials": "true",
}
PREFLIGHT = {
    "Access-Control-Allow-Methods": "GET, POST",
    "Access-Control-Allow-Headers": "authorization, cache-control, content-type, x-requested-with, "
    "x-signalr-user-agent",
    "Access-Control-Max-Age": "600",
}
_CLOSE = {"Connection": "close"}
"""A post lasts for a moment: a connection that waits for another would count against the sessions."""


class Hub:
    """Answers the requests of clients of SignalR at one path."""

    def __init__(self, settings: GatewaySettings, admission: Admission, server: SessionServer) -> None:
        self._settings = settings
        self._admission = admission
        self._server = server
        self._negotiate_path = f"{settings.signalr_path}/negotiate"
        self._connections = Connections(settings.max_sessions, settings.max_sessions_per_user)

    def has(self, path: str) -> bool:
        """Return whether a path is one of the hub."""
        return bool(self._settings.signalr_path) and path in {
            self._settings.signalr_path,
            self._negotiate_path,
        }

    def transport_name(self, scope: Any) -> str:
        """Return the label of a request in metrics."""
        if scope["type"] == "websocket":
            return HubWebSocketTransport.name
        return HubSseTransport.name if scope["method"] == "GET" else "signalr"

    async def answer(
        self, request: ConnectRequest, headers: Mapping[str, str], scope: Any, receive: Any, send: Any
    ) -> None:
        """Answer a request; raise a problem if it cannot be."""
        is_negotiation = scope["path"] == self._negotiate_path
        if scope["type"] == "websocket":
            if is_negotiation:
                raise ProblemError(NOT_FOUND, f"WebSockets connect to {self._settings.signalr_path}.")
            await self._websocket(request, receive, send)
            return
        match scope["method"]:
            case "OPTIONS":
                response = ASGIResponse(status_code=204, headers={**headers, **PREFLIGHT})
            case "POST" if is_negotiation:
                response = await self._negotiated(request)
            case "POST":
                response = await self._posted(request, receive)
            case "GET" if not is_negotiation:
                await self._sse(request, headers, receive, send)
                return
            case _:
                allowed = {"Allow": "POST, OPTIONS" if is_negotiation else "GET, POST, OPTIONS"}
                raise ProblemError(METHOD_NOT_ALLOWED, "See the header Allow.", headers=allowed)
        response.headers.update({**headers, **_CLOSE})
        await response(scope, receive, send)

    async def _negotiated(self, request: ConnectRequest) -> ASGIResponse:
        """Return a connection token, and the transports for it."""
        version = _version(request.negotiate_version)
        person, _ = await self._admission.admit(request)
        try:
            token = self._connections.negotiate(person.user_id)
        except TooManySessionsError as error:
            raise self._server.too_many(error) from None
        names = ["WebSockets"] if self._settings.websockets else []
        transports = [
            {"transport": name, "transferFormats": ["Text"]} for name in (*names, "ServerSentEvents")
        ]
        given = {"negotiateVersion": version, "availableTransports": transports}
        if version:
            given |= {"connectionId": secrets.token_urlsafe(ID_BYTES), "connectionToken": token}
        else:
            given |= {"connectionId": token}
        return reply(given, 200)

    async def _websocket(self, request: ConnectRequest, receive: Any, send: Any) -> None:
        """Serve a WebSocket; one without a connection token skipped the negotiation."""
        await receive()
        person, after = await self._admission.admit(request)
        token = request.connection_token
        if token is not None and not self._connections.redeem(token, person.user_id):
            raise _unknown_connection()
        transport = HubWebSocketTransport(receive, send, **self._options(request))
        await self._server.serve(person, after, transport)
        await transport.answer_close()

    async def _sse(
        self, request: ConnectRequest, headers: Mapping[str, str], receive: Any, send: Any
    ) -> None:
        """Serve Server-Sent Events."""
        if EVENT_STREAM not in request.accept:
            detail = f"Connect with a WebSocket, or with `Accept: {EVENT_STREAM}`."
            raise ProblemError(BAD_REQUEST, detail)
        token = _required_token(request)
        person, after = await self._admission.admit(request)
        if not self._connections.redeem(token, person.user_id):
            raise _unknown_connection()
        transport = HubSseTransport(receive, send, headers, **self._options(request))
        with self._connections.posting(token, person.user_id, transport):
            await self._server.serve(person, after, transport)

    async def _posted(self, request: ConnectRequest, receive: Any) -> ASGIResponse:
        """Pass on what a client of Server-Sent Events sends."""
        token = _required_token(request)
        person = await self._admission.authenticate(request)
        body = await _body(receive)
        transport = self._connections.transport(token, person.user_id)
        if transport is None:
            raise _unknown_connection()
        if transport.is_busy:
            raise ProblemError(POST_PENDING, "Wait for the answer to a post before the next one.")
        await transport.post(body)
        return ASGIResponse(body=b"", status_code=200, media_type="text/plain")

    def _options(self, request: ConnectRequest) -> dict[str, Any]:
        return {
            "client_seconds": self._settings.signalr_client_seconds,
            "positions": request.last_event_id is not None,
        }


async def _body(receive: Any) -> bytes:
    """Read the body of a request, within its bounds."""
    body = bytearray()
    try:
        async with asyncio.timeout(POST_SECONDS):
            while (message := await receive())["type"] == "http.request":
                body += message["body"]
                if len(body) > LARGEST_POST:
                    raise ProblemError(BODY_TOO_LARGE, f"A post may have {LARGEST_POST} bytes.")
                if not message["more_body"]:
                    return bytes(body)
    except TimeoutError:
        raise ProblemError(BODY_TIMEOUT, f"A post may take {POST_SECONDS:g} seconds.") from None
    raise ProblemError(BAD_REQUEST, "The body is not complete.")


def _version(text: str | None) -> int:
    """Return the version of the negotiation: that of the client, or the newest one here."""
    if not text:
        return 0
    if not text.isdecimal():
        raise ProblemError(BAD_REQUEST, "negotiateVersion is not a number.")
    return 0 if text == "0" else NEWEST_VERSION


def _required_token(request: ConnectRequest) -> str:
    if not request.connection_token:
        raise ProblemError(BAD_REQUEST, "The connection token is missing: send it as `id`.")
    return request.connection_token


def _unknown_connection() -> ProblemError:
    detail = "There is no such connection: it ended, its token expired, or another process has it."
    return ProblemError(NOT_FOUND, detail)
