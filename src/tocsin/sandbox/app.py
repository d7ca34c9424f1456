"""The application: routes requests by path, and counts what stand-ins answer."""

from collections.abc import Callable, Sequence

import msgspec
import structlog

from tocsin.sandbox.control import PREFIX, Control
from tocsin.sandbox.faults.rules import Cut, Hang
from tocsin.sandbox.page import page_file
from tocsin.sandbox.responses import TEXT, Response
from tocsin.sandbox.stand_in import HttpStandIn, ReceivedRequest

_log = structlog.get_logger()
_TOKEN_PATHS = frozenset({"/token", "/oauth2/v4/token", "/o/oauth2/token"})
_NOT_FOUND = Response(
    "no_such_url",
    404,
    b"<!DOCTYPE html><html lang=en><title>Error 404 (Not Found)!!1</title>"
    b"<p>The requested URL was not found on this server.</html>",
    (("content-type", "text/html; charset=UTF-8"),),
)
FAILED = Response("failed", 500, b"Internal server error", (TEXT,))


class Application(msgspec.Struct, frozen=True):
    """Serves every listener of one sandbox."""

    stand_ins: Sequence[HttpStandIn]
    grant_token: Callable[[ReceivedRequest], Response]
    control: Control

    def stand_in_for(self, method: str, path: str) -> HttpStandIn | None:
        """Return the stand-in that a request is for; None if it is for the sandbox itself."""
        for stand_in in self.stand_ins:
            if stand_in.matches(method, path):
                return stand_in
        return None

    def answer(
        self, request: ReceivedRequest, stand_in: HttpStandIn | None
    ) -> tuple[Response | Hang | Cut, float]:
        """Return the answer, or the fault that breaks it, and after how many seconds it is sent.

        An error of the sandbox itself is logged and becomes a bare 500.
        """
        try:
            if stand_in is None:
                return self._route(request), 0.0
            answer = stand_in.handle(request)
        except Exception:  # noqa: BLE001 - logged; one request must not end the connection of others
            _log.exception("sandbox request failed", method=request.method)
            return FAILED, 0.0
        if isinstance(answer, Response):
            stand_in.counters.count_answer(answer.code)
            return answer, stand_in.faults.delay()
        stand_in.counters.count_answer(type(answer).__name__.upper())
        return answer, 0.0

    def _route(self, request: ReceivedRequest) -> Response:
        if request.path in {"/", PREFIX} and request.method == "GET":
            return page_file()
        if request.path.startswith(PREFIX):
            return self.control.handle(request)
        if request.path in _TOKEN_PATHS and request.method == "POST":
            return self.grant_token(request)
        return _NOT_FOUND
