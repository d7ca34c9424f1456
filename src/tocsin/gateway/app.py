"""The app of the gateway: one session for each connection.

It is plain ASGI: a request lasts for hours, and what a web framework keeps for each would add up.
"""

import asyncio
import contextlib
import random
from typing import Any

import structlog
from litestar.response.base import ASGIResponse
from uvicorn.protocols.utils import ClientDisconnected

from tocsin.api.http.problems import (
    BAD_REQUEST,
    METHOD_NOT_ALLOWED,
    NOT_ALLOWED,
    NOT_FOUND,
    TOO_MANY_SESSIONS,
    ProblemError,
)
from tocsin.api.http.replies import problem_reply
from tocsin.gateway.admission import Admission
from tocsin.gateway.requests import ConnectRequest, read_request
from tocsin.gateway.sessions import Ending, Reset, Session, Sessions, TooManySessionsError
from tocsin.gateway.settings import GatewaySettings
from tocsin.gateway.transports import SseTransport, Transport, WebSocketTransport
from tocsin.telemetry import metrics

PATHS = {"http": "/v1/events", "websocket": "/v1/events/ws"}
CLOSE_CODES = {401: 4401, 503: 1013}
"""The close code of a WebSocket that is refused, by the status of the problem."""
NOT_ACCEPTABLE = 1008
LAST_SECONDS = 1.0
PREFLIGHT = {
    "Access-Control-Allow-Methods": "GET",
    "Access-Control-Allow-Headers": "authorization, cache-control, last-event-id",
    "Access-Control-Max-Age": "600",
}

_NAMES = {"http": SseTransport.name, "websocket": WebSocketTransport.name}
_log = structlog.stdlib.get_logger(__name__)


class GatewayApp:
    """Answers `GET /v1/events` with Server-Sent Events, and `/v1/events/ws` with a WebSocket."""

    def __init__(self, settings: GatewaySettings, sessions: Sessions, admission: Admission) -> None:
        self._settings = settings
        self._sessions = sessions
        self._admission = admission

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Handle a connection."""
        headers: dict[str, str] = {}
        try:
            request = self._read(scope)
            if request.origin is not None:
                headers = {
                    "Access-Control-Allow-Origin": request.origin,
                    "Access-Control-Expose-Headers": "retry-after",
                    "Vary": "Origin",
                }
            if scope["type"] == "websocket":
                await self._websocket(request, receive, send)
            elif scope["method"] == "OPTIONS":
                await ASGIResponse(status_code=204, headers=headers | PREFLIGHT)(scope, receive, send)
            else:
                await self._serve(request, SseTransport(receive, send, headers))
        except ProblemError as error:
            metrics.gateway_sessions_refused.add((_NAMES[scope["type"]], error.problem.code))
            error.headers.update(headers)
            await problem_reply(error)(
                scope, receive, _denying(send) if scope["type"] == "websocket" else send
            )
        except ClientDisconnected:
            # A WebSocket that its client has left; a response to one is dropped.
            return
        except Exception:
            _log.exception("session failed")
            raise

    def _read(self, scope: Any) -> ConnectRequest:
        """Read a request; raise a problem if nobody may make it."""
        if scope["path"] != PATHS[scope["type"]]:
            detail = f"The gateway answers {PATHS['http']}, and WebSockets at {PATHS['websocket']}."
            raise ProblemError(NOT_FOUND, detail)
        if scope["type"] == "http" and scope["method"] not in {"GET", "OPTIONS"}:
            raise ProblemError(
                METHOD_NOT_ALLOWED, "Events are read with GET.", headers={"Allow": "GET, OPTIONS"}
            )
        try:
            request = read_request(scope)
        except ValueError:
            raise ProblemError(BAD_REQUEST, "The query of the address cannot be read.") from None
        if not request.is_from_allowed_origin(self._settings.allowed_origins):
            raise ProblemError(
                NOT_ALLOWED, "Pages of this origin may not connect: see gateway.allowed_origins."
            )
        return request

    async def _websocket(self, request: ConnectRequest, receive: Any, send: Any) -> None:
        """Serve a WebSocket; browsers see why one was refused only if it is accepted and closed."""
        await receive()
        transport = WebSocketTransport(receive, send)
        try:
            await self._serve(request, transport)
        except ProblemError as error:
            metrics.gateway_sessions_refused.add((transport.name, error.problem.code))
            retry_ms = self._admission.retry_ms()
            await transport.open(retry_ms)
            close_code = CLOSE_CODES.get(error.problem.status, NOT_ACCEPTABLE)
            await transport.end(error.problem.code, close_code, retry_ms)

    async def _serve(self, request: ConnectRequest, transport: Transport) -> None:
        """Serve a session until it ends; raise a problem if it may not begin."""
        person, after = await self._admission.admit(request)
        with contextlib.ExitStack() as exits:
            try:
                session = exits.enter_context(self._sessions.opened(person, transport.name, after))
            except TooManySessionsError as error:
                headers = self._admission.retry_header()
                raise ProblemError(TOO_MANY_SESSIONS, str(error), headers=headers) from None
            watching = asyncio.create_task(_watch(session, transport))
            try:
                async with session.until_ended():
                    await transport.open(self._admission.retry_ms())
                    await self._follow(session, transport)
            finally:
                watching.cancel()
                await asyncio.wait([watching])
            await self._end(session, transport)

    async def _follow(self, session: Session, transport: Transport) -> None:
        """Send what the session has, and pings, until it is to end."""
        ping_in = 0.0
        while (item := await session.next(ping_in)) is not None or session.ending is None:
            match item:
                case None:
                    # Nothing waits, so the client has everything up to here.
                    await transport.ping(max(self._sessions.position or session.seen, session.seen))
                    ping_in = self._settings.ping_seconds * random.uniform(0.8, 1)  # noqa: S311 - not all at once
                case Reset():
                    await transport.reset()
                case event:
                    await transport.send(event)
                    metrics.gateway_events_sent.add((transport.name,))

    async def _end(self, session: Session, transport: Transport) -> None:
        """Report to the client why its session ends, if it can be reached in time."""
        ending = session.ending
        if ending is None or ending is Ending.CLOSED_BY_CLIENT:
            return
        retry_ms = self._admission.retry_ms()
        if ending is Ending.RESTART:
            longest = max(self._settings.reconnect_seconds, self._settings.retry_seconds)
            retry_ms = int(1_000 * random.uniform(self._settings.retry_seconds, longest))  # noqa: S311 - jitter
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LAST_SECONDS):
                await transport.end(ending.reason, ending.value, retry_ms)


async def _watch(session: Session, transport: Transport) -> None:
    session.interrupt(await transport.closed())


def _denying(send: Any) -> Any:
    """Return a `send` with which a response refuses a WebSocket."""

    async def deny(message: Any) -> None:
        await send({**message, "type": f"websocket.{message['type']}"})

    return deny
