"""The RSGI application: routing by path and the manner in which answers leave."""

import asyncio
from collections.abc import Sequence
from typing import Any

import structlog
from granian.rsgi import HTTPProtocol, Scope  # type: ignore[attr-defined]

from tocsin.sandbox.answers import Answer, Headers, json_answer, problem
from tocsin.sandbox.faults.control import PREFIX, Control
from tocsin.sandbox.faults.rules import Cut, Hang
from tocsin.sandbox.fcm.oauth import TokenEndpoint
from tocsin.sandbox.foreign_writes import is_foreign_write
from tocsin.sandbox.page import page_file
from tocsin.sandbox.service import Broken, Request, Service

_log = structlog.get_logger()
_TOKEN_PATHS = frozenset({"/token", "/oauth2/v4/token", "/o/oauth2/token"})
_HTML: Headers = [("content-type", "text/html; charset=UTF-8")]
_NO_SUCH_URL = Answer(
    "no_such_url",
    404,
    b"<!DOCTYPE html><html lang=en><title>Error 404 (Not Found)!!1</title>"
    b"<p>The requested URL was not found on this server.</html>",
    _HTML,
)


_FOREIGN_WRITE = problem(
    403, "foreign_origin", "A browser may change the sandbox from the sandbox's own page alone."
)


class Application:
    """Serves every listener of one sandbox."""

    def __init__(
        self, *, services: Sequence[Service], tokens: TokenEndpoint, token_issuer: Service, control: Control
    ) -> None:
        self._services = services
        self._tokens = tokens
        self._token_issuer = token_issuer
        self._control = control
        self._closing = asyncio.Event()

    async def __rsgi__(self, scope: Scope, protocol: HTTPProtocol) -> None:
        """Answer one request; a fault of the sandbox itself becomes a bare 500 and a line in the log."""
        try:
            await self._answer(scope, protocol)
        except Exception:
            _log.exception("sandbox_request_failed", method=scope.method)
            raise

    def release(self) -> None:
        """Let every hanging request go, so that the listeners can stop."""
        self._closing.set()

    async def _answer(self, scope: Scope, protocol: HTTPProtocol) -> None:
        path, method = scope.path, scope.method
        for service in self._services:
            if service.takes(method, path):
                await self._serve(service, scope, protocol)
                return
        if path.startswith(PREFIX):
            _respond(protocol, self._steer(scope, await protocol()))
        elif path == "/" and method == "GET":
            _respond(protocol, page_file())
        elif method == "POST" and path in _TOKEN_PATHS:
            _respond(protocol, self._grant(scope, await protocol()))
        else:
            _respond(protocol, _NO_SUCH_URL)

    async def _serve(self, service: Service, scope: Scope, protocol: HTTPProtocol) -> None:
        tally = service.tally
        tally.arrive(scope.http_version)
        try:
            verdict = service.serve(
                Request(
                    method=scope.method,
                    path=scope.path,
                    query=scope.query_string,
                    header=scope.headers.get,
                    body=await protocol(),
                    origin=_origin(scope),
                )
            )
            if isinstance(verdict, Broken):
                tally.answer(type(verdict.fault).__name__.upper())
                await self._break(protocol, verdict.fault)
                return
            tally.answer(verdict.code)
            delay = service.faults.delay()
            if delay:
                await asyncio.sleep(delay)
            _respond(protocol, verdict)
        finally:
            tally.leave()

    def _steer(self, scope: Scope, body: bytes) -> Answer:
        if is_foreign_write(
            scope.method,
            own_origin=_origin(scope),
            listens_at=scope.server,
            origin=scope.headers.get("origin"),
            site=scope.headers.get("sec-fetch-site"),
        ):
            return _FOREIGN_WRITE
        secure = scope.scheme == "https"
        return self._control.answer(scope.method, scope.path, scope.query_string, body, secure=secure)

    def _grant(self, scope: Scope, body: bytes) -> Answer:
        outage = self._token_issuer.faults.tokens_outage()
        if outage:
            refused = json_answer({"error": "temporarily_unavailable"}, status=503, code="unavailable")
            return refused.with_retry_after(outage.retry_after)
        host = scope.authority or scope.headers.get("host")
        answer = self._tokens.grant(
            body, tuple(f"{scheme}://{host}{scope.path}" for scheme in ("https", "http"))
        )
        if answer.status == 200:  # noqa: PLR2004 - the status that means a token was issued
            self._token_issuer.tally.access_tokens_issued += 1
        return answer

    async def _break(self, protocol: HTTPProtocol, fault: Hang | Cut) -> None:
        if isinstance(fault, Cut):
            # Less is sent than announced: HTTP/1.1 ends the connection, HTTP/2 resets the stream.
            stream = protocol.response_stream(200, [("content-length", "64")])
            await stream.send_bytes(b"{")
            return
        waits: list[asyncio.Future[Any]] = [
            asyncio.ensure_future(protocol.client_disconnect()),
            asyncio.ensure_future(self._closing.wait()),
        ]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()


def _origin(scope: Scope) -> str:
    return f"{scope.scheme}://{scope.authority or scope.headers.get('host')}"


def _respond(protocol: HTTPProtocol, answer: Answer) -> None:
    protocol.response_bytes(answer.status, answer.headers, answer.body)
