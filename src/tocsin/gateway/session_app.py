"""An app with one session for each connection: Server-Sent Events at one path, WebSockets at another.

It is plain ASGI: a request lasts for hours, and what a web framework keeps for each would add up.
"""

from collections.abc import Mapping
from typing import Any

import structlog
from litestar.response.base import ASGIResponse

from tocsin.api.http.event_streams import EVENT_STREAM
from tocsin.api.http.problems import (
    BAD_REQUEST,
    METHOD_NOT_ALLOWED,
    NOT_ALLOWED,
    NOT_FOUND,
    UNAVAILABLE,
    ProblemError,
)
from tocsin.api.http.replies import problem_reply
from tocsin.gateway.admission import Admission
from tocsin.gateway.requests import ConnectRequest, read_request
from tocsin.gateway.serving import SessionServer
from tocsin.gateway.settings import GatewaySettings
from tocsin.gateway.transports import SseTransport, Transport, WebSocketTransport
from tocsin.telemetry import metrics

CLOSE_CODES = {401: 4401, 503: 1013}
"""The close code of a WebSocket that is refused, by the status of the problem."""
NOT_ACCEPTABLE = 1008
PREFLIGHT = {
    "Access-Control-Allow-Methods": "GET",
    "Access-Control-Allow-Headers": "authorization, cache-control, last-event-id",
    "Access-Control-Max-Age": "600",
}

_NAMES = {"http": SseTransport.name, "websocket": WebSocketTransport.name}
_log = structlog.stdlib.get_logger(__name__)


class SessionApp:
    """Answers the path of each kind of connection with a session; `disconnects` mean that a client left."""

    def __init__(
        self,
        settings: GatewaySettings,
        admission: Admission,
        server: SessionServer,
        paths: Mapping[str, str],
        disconnects: tuple[type[Exception], ...] = (),
    ) -> None:
        self._settings = settings
        self._admission = admission
        self._server = server
        self._paths = paths
        self._disconnects = disconnects

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Handle a connection."""
        headers: dict[str, str] = {}
        try:
            self._check(scope)
            request = self._read(scope)
            if request.origin is not None:
                headers = {
                    "Access-Control-Allow-Origin": request.origin,
                    "Access-Control-Expose-Headers": "retry-after",
                    "Vary": "Origin",
                    **self._more_headers(scope),
                }
            await self._answer(request, headers, scope, receive, send)
        except ProblemError as error:
            metrics.gateway_sessions_refused.add((self._transport_name(scope), error.problem.code))
            error.headers.update(headers)
            await problem_reply(error)(
                scope, receive, _denying(send) if scope["type"] == "websocket" else send
            )
        except self._disconnects:
            # A WebSocket that its client has left; a response to one is dropped.
            return
        except Exception:
            _log.exception("session failed")
            raise

    def _transport_name(self, scope: Any) -> str:
        """Return the label of a request in metrics."""
        return _NAMES[scope["type"]]

    def _more_headers(self, scope: Any) -> Mapping[str, str]:  # noqa: ARG002 - for those who override it
        """Return further headers of an answer to a page of another origin."""
        return {}

    def _check(self, scope: Any) -> None:
        """Raise a problem if there are no events at a path, or not by this method."""
        if scope["path"] != self._paths[scope["type"]]:
            detail = f"Events are at {self._paths['http']}, and WebSockets at {self._paths['websocket']}."
            raise ProblemError(NOT_FOUND, detail)
        if scope["type"] == "http" and scope["method"] not in {"GET", "OPTIONS"}:
            raise ProblemError(
                METHOD_NOT_ALLOWED, "Events are read with GET.", headers={"Allow": "GET, OPTIONS"}
            )

    def _read(self, scope: Any) -> ConnectRequest:
        """Read a request; raise a problem if nobody may make it."""
        try:
            request = read_request(scope)
        except ValueError:
            raise ProblemError(BAD_REQUEST, "The query of the address cannot be read.") from None
        if not request.is_from_allowed_origin(self._settings.allowed_origins):
            raise ProblemError(
                NOT_ALLOWED, "Pages of this origin may not connect: see gateway.allowed_origins."
            )
        return request

    async def _answer(
        self, request: ConnectRequest, headers: Mapping[str, str], scope: Any, receive: Any, send: Any
    ) -> None:
        if scope["type"] == "websocket":
            await self._websocket(request, receive, send)
        elif scope["method"] == "OPTIONS":
            await ASGIResponse(status_code=204, headers={**headers, **PREFLIGHT})(scope, receive, send)
        else:
            await self._event_stream(request, SseTransport(receive, send, headers))

    async def _event_stream(self, request: ConnectRequest, transport: Transport) -> None:
        """Serve a stream of events; a browser's `EventSource` never connects again after a 503."""
        try:
            await self._serve(request, transport)
        except ProblemError as error:
            if error.problem.code != UNAVAILABLE.code or EVENT_STREAM not in request.accept:
                raise
            await self._refuse(transport, error)

    async def _websocket(self, request: ConnectRequest, receive: Any, send: Any) -> None:
        """Serve a WebSocket; browsers see why one was refused only if it is accepted and closed."""
        await receive()
        transport = WebSocketTransport(receive, send)
        try:
            await self._serve(request, transport)
        except ProblemError as error:
            await self._refuse(transport, error)

    async def _refuse(self, transport: Transport, error: ProblemError) -> None:
        """Accept a connection and end it at once, with the reason and when to come back."""
        metrics.gateway_sessions_refused.add((transport.name, error.problem.code))
        retry_ms = self._admission.retry_ms()
        await transport.open(retry_ms)
        close_code = CLOSE_CODES.get(error.problem.status, NOT_ACCEPTABLE)
        await transport.end(error.problem.code, close_code, retry_ms)

    async def _serve(self, request: ConnectRequest, transport: Transport) -> None:
        """Serve a session until it ends; raise a problem if it may not begin."""
        person, after = await self._admission.admit(request)
        await self._server.serve(person, after, transport)


def _denying(send: Any) -> Any:
    """Return a `send` with which a response refuses a WebSocket."""

    async def deny(message: Any) -> None:
        await send({**message, "type": f"websocket.{message['type']}"})

    return deny
