"""The access log: one line for each request, with its request id."""

import re
import time
from collections.abc import Iterable
from typing import Any

import structlog
from litestar.types import ASGIApp, Message, Receive, Scope, Send

from tocsin.api.http.event_streams import EVENT_STREAM
from tocsin.domain.ids import uuid7
from tocsin.telemetry import metrics
from tocsin.telemetry.instruments import OTHER

REQUEST_ID_HEADER = b"x-request-id"
REQUEST_ID = "tocsin.request_id"

_ACCEPTABLE = re.compile(rb"[\x21-\x7e]{1,128}")
_PROBES = frozenset({"/healthz", "/readyz"})
_STREAM = EVENT_STREAM.encode()
NO_ROUTE = "(no route)"
OK, FAILED = 200, 400
_log = structlog.stdlib.get_logger(__name__)


class AccessLog:
    """Wraps the routing, so that requests without a route are logged too.

    What succeeds in less than `slow_seconds` is logged at debug level.
    """

    def __init__(self, app: ASGIApp, slow_seconds: float) -> None:
        self._app = app
        self._slow_seconds = slow_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request, echo its id and log its status and duration."""
        request_id = _request_id(scope)
        scope[REQUEST_ID] = request_id.decode()  # type: ignore[literal-required]
        started = time.perf_counter()
        status, answered = 0, None

        async def send_with_id(message: Message) -> None:
            nonlocal status, answered
            if message["type"] == "http.response.start":
                status = message["status"]
                if _is_stream(message["headers"]):
                    # It lasts as long as somebody looks, which says nothing about the server.
                    answered = time.perf_counter()
                message["headers"] = [*message["headers"], (REQUEST_ID_HEADER, request_id)]
            await send(message)

        try:
            await self._app(scope, receive, send_with_id)
        finally:
            _report(scope, status, (answered or time.perf_counter()) - started, self._slow_seconds)


def request_id_of(scope: Any) -> str:
    """Return the id of a request."""
    return str(scope.get(REQUEST_ID, ""))


def _is_stream(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    return any(name == b"content-type" and value.startswith(_STREAM) for name, value in headers)


def _request_id(scope: Scope) -> bytes:
    for name, value in scope["headers"]:
        if name == REQUEST_ID_HEADER and _ACCEPTABLE.fullmatch(value):
            return bytes(value)
    return uuid7().hex.encode()


def _report(scope: Any, status: int, seconds: float, slow: float) -> None:
    path = scope.get("path_template") or NO_ROUTE
    if metrics.switch.on and path not in _PROBES:
        method = scope["method"] if path != NO_ROUTE else OTHER
        metrics.http_requests.observe((method, path, f"{status // 100}xx" if status else "none"), seconds)
    is_noteworthy = not OK <= status < FAILED or seconds > slow
    log = _log.info if is_noteworthy else _log.debug
    log(
        "request handled",
        method=scope["method"],
        path=path,
        status=status,
        duration_ms=round(seconds * 1000, 2),
        request_id=scope[REQUEST_ID],
    )
