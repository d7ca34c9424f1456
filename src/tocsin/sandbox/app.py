"""The RSGI application: routes requests by path and writes responses, whole or broken."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import structlog
from granian.rsgi import HTTPProtocol, Scope  # type: ignore[attr-defined]

from tocsin.sandbox.control import PREFIX, Control
from tocsin.sandbox.faults.rules import Cut, Hang
from tocsin.sandbox.page import page_file
from tocsin.sandbox.responses import Response
from tocsin.sandbox.stand_in import HttpStandIn, ReceivedRequest

_log = structlog.get_logger()
_TOKEN_PATHS = frozenset({"/token", "/oauth2/v4/token", "/o/oauth2/token"})
_NOT_FOUND = Response(
    "no_such_url",
    404,
    b"<!DOCTYPE html><html lang=en><title>Error 404 (Not Found)!!1</title>"
    b"<p>The requested URL was not found on this server.</html>",
    [("content-type", "text/html; charset=UTF-8")],
)


class Application(msgspec.Struct):
    """Serves every listener of one sandbox; `closing` ends the hanging requests, so that they can stop."""

    stand_ins: Sequence[HttpStandIn]
    grant_token: Callable[[ReceivedRequest], Response]
    control: Control
    closing: asyncio.Event = msgspec.field(default_factory=asyncio.Event)

    async def __rsgi__(self, scope: Scope, protocol: HTTPProtocol) -> None:
        """Answer one request; an error of the sandbox itself is logged and becomes a bare 500."""
        try:
            for stand_in in self.stand_ins:
                if stand_in.matches(scope.method, scope.path):
                    await self._serve(stand_in, scope, protocol)
                    return
            _respond(protocol, self._route(_request(scope, await protocol())))
        except Exception:
            _log.exception("sandbox request failed", method=scope.method)
            raise

    def _route(self, request: ReceivedRequest) -> Response:
        if request.path in {"/", PREFIX} and request.method == "GET":
            return page_file()
        if request.path.startswith(PREFIX):
            return self.control.handle(request)
        if request.path in _TOKEN_PATHS and request.method == "POST":
            return self.grant_token(request)
        return _NOT_FOUND

    async def _serve(self, stand_in: HttpStandIn, scope: Scope, protocol: HTTPProtocol) -> None:
        counters = stand_in.counters
        counters.start_request(scope.http_version)
        try:
            response = stand_in.handle(_request(scope, await protocol()))
            if isinstance(response, Hang | Cut):
                counters.count_answer(type(response).__name__.upper())
                await self._break(protocol, response)
                return
            counters.count_answer(response.code)
            await asyncio.sleep(stand_in.faults.delay())
            _respond(protocol, response)
        finally:
            counters.end_request()

    async def _break(self, protocol: HTTPProtocol, fault: Hang | Cut) -> None:
        if isinstance(fault, Cut):
            # Less is sent than announced: HTTP/1.1 ends the connection, HTTP/2 resets the stream.
            stream = protocol.response_stream(200, [("content-length", "64")])
            await stream.send_bytes(b"{")
            return
        waits: list[asyncio.Future[Any]] = [
            asyncio.ensure_future(protocol.client_disconnect()),
            asyncio.ensure_future(self.closing.wait()),
        ]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()


def _request(scope: Scope, body: bytes) -> ReceivedRequest:
    return ReceivedRequest(
        method=scope.method,
        path=scope.path,
        query=scope.query_string,
        header=scope.headers.get,
        body=body,
        origin=f"{scope.scheme}://{scope.authority or scope.headers.get('host')}",
        server=scope.server,
    )


def _respond(protocol: HTTPProtocol, response: Response) -> None:
    protocol.response_bytes(response.status, response.headers, response.body)
