"""The access log: one line for each request, with its request id."""

import re
import time
from typing import Any

import structlog
from litestar.types import ASGIApp, Message, Receive, Scope, Send

from tocsin.domain.ids import uuid7

REQUEST_ID_HEADER = b"x-request-id"
REQUEST_ID = "tocsin.request_id"

_ACCEPTABLE = re.compile(rb"[\x21-\x7e]{1,128}")
_PROBES = frozenset({"/healthz", "/readyz"})
_log = structlog.stdlib.get_logger(__name__)


class AccessLog:
    """Wraps the routing, so that requests without a route are logged too."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request, echo its id and log its status and duration."""
        request_id = _request_id(scope)
        scope[REQUEST_ID] = request_id.decode()  # type: ignore[literal-required]
        started = time.perf_counter()
        status = 0

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], (REQUEST_ID_HEADER, request_id)]
            await send(message)

        try:
            await self._app(scope, receive, send_with_id)
        finally:
            _report(scope, status, time.perf_counter() - started)


def request_id_of(scope: Any) -> str:
    """Return the id of a request."""
    return str(scope.get(REQUEST_ID, ""))


def _request_id(scope: Scope) -> bytes:
    for name, value in scope["headers"]:
        if name == REQUEST_ID_HEADER and _ACCEPTABLE.fullmatch(value):
            return bytes(value)
    return uuid7().hex.encode()


def _report(scope: Any, status: int, seconds: float) -> None:
    path = scope.get("path_template") or "(no route)"
    log = _log.debug if path in _PROBES else _log.info
    log(
        "request handled",
        method=scope["method"],
        path=path,
        status=status,
        duration_ms=round(seconds * 1000, 2),
        request_id=scope[REQUEST_ID],
    )
