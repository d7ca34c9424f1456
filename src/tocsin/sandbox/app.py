"""The RSGI application: routing by path and the manner in which answers leave."""

import asyncio
from typing import Any

import structlog
from granian.rsgi import HTTPProtocol, Scope  # type: ignore[attr-defined]

from tocsin.sandbox.answers import Answer, Headers, json_answer
from tocsin.sandbox.control import PREFIX, Control
from tocsin.sandbox.fault_board import FaultBoard
from tocsin.sandbox.faults import Cut, Hang
from tocsin.sandbox.fcm import Broken, Fcm
from tocsin.sandbox.oauth import TokenEndpoint
from tocsin.sandbox.tally import Tally

_log = structlog.get_logger()
_FCM_PREFIX = "/v1/projects/"
_FCM_SUFFIX = "/messages:send"
_TOKEN_PATHS = frozenset({"/token", "/oauth2/v4/token", "/o/oauth2/token"})
_HTML: Headers = [("content-type", "text/html; charset=UTF-8")]
_NO_SUCH_URL = Answer(
    "no_such_url",
    404,
    b"<!DOCTYPE html><html lang=en><title>Error 404 (Not Found)!!1</title>"
    b"<p>The requested URL was not found on this server.</html>",
    _HTML,
)


class Application:
    """Serves every listener of one sandbox."""

    def __init__(
        self, *, fcm: Fcm, tokens: TokenEndpoint, control: Control, faults: FaultBoard, tally: Tally
    ) -> None:
        self._fcm = fcm
        self._tokens = tokens
        self._control = control
        self._faults = faults
        self._tally = tally
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
        if method == "POST" and path.startswith(_FCM_PREFIX) and path.endswith(_FCM_SUFFIX):
            await self._send(scope, protocol, path[len(_FCM_PREFIX) : -len(_FCM_SUFFIX)])
        elif path.startswith(PREFIX):
            secure = scope.scheme == "https"
            body = await protocol()
            _respond(protocol, self._control.answer(method, path, scope.query_string, body, secure=secure))
        elif method == "POST" and path in _TOKEN_PATHS:
            _respond(protocol, self._grant(scope, await protocol()))
        else:
            _respond(protocol, _NO_SUCH_URL)

    async def _send(self, scope: Scope, protocol: HTTPProtocol, project: str) -> None:
        self._tally.arrive(scope.http_version)
        try:
            body = await protocol()
            verdict = self._fcm.send(project, scope.headers.get("authorization"), body)
            if isinstance(verdict, Broken):
                self._tally.answer(type(verdict.fault).__name__.upper())
                await self._break(protocol, verdict.fault)
                return
            self._tally.answer(verdict.code)
            delay = self._faults.delay()
            if delay:
                await asyncio.sleep(delay)
            _respond(protocol, verdict)
        finally:
            self._tally.leave()

    def _grant(self, scope: Scope, body: bytes) -> Answer:
        outage = self._faults.tokens_outage()
        if outage:
            refused = json_answer({"error": "temporarily_unavailable"}, status=503, code="unavailable")
            return refused.with_retry_after(outage.retry_after)
        host = scope.authority or scope.headers.get("host")
        answer = self._tokens.grant(
            body, tuple(f"{scheme}://{host}{scope.path}" for scheme in ("https", "http"))
        )
        if answer.status == 200:  # noqa: PLR2004 - the status that means a token was issued
            self._tally.access_tokens_issued += 1
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


def _respond(protocol: HTTPProtocol, answer: Answer) -> None:
    protocol.response_bytes(answer.status, answer.headers, answer.body)
