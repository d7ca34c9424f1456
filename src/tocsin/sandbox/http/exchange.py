"""One request and its answer: what is the same in every version of HTTP."""

from abc import ABC, abstractmethod
from http import HTTPStatus

import structlog

from tocsin.sandbox.app import FAILED
from tocsin.sandbox.faults.rules import Hang
from tocsin.sandbox.http.bodies import PartialBody
from tocsin.sandbox.http.request_heads import RequestHead
from tocsin.sandbox.http.service import Service
from tocsin.sandbox.responses import TEXT, Response
from tocsin.sandbox.stand_in import ReceivedRequest

_log = structlog.get_logger()
TOO_LARGE = Response("too_large", HTTPStatus.REQUEST_ENTITY_TOO_LARGE, b"The body is too large.\n", (TEXT,))
CUT, CUT_LENGTH = Response("cut", HTTPStatus.OK, b"{", ()), 64
"""The beginning of an answer that is broken off, and the length that it announces."""


class Exchange(ABC):
    """A request to a stand-in counts as in flight until it is answered or nobody waits for it any more."""

    __slots__ = ("_service", "due", "head", "is_hanging", "is_over", "parts")

    def __init__(self, service: Service, head: RequestHead, version: str) -> None:
        self._service = service
        self.head = head
        self.is_over = False
        self.is_hanging = False
        self.due: int | None = None
        """The moment of a delayed answer."""
        self.parts: PartialBody | None = None
        """What came of a body that comes in parts."""
        if head.stand_in is not None:
            head.stand_in.counters.start_request(version)

    def handle(self, body: bytes, server: str) -> None:
        """Handle the whole request, and answer now, later or never."""
        head = self.head
        request = ReceivedRequest(
            head.method, head.path, head.query, head.headers.get, body, head.origin, server
        )
        answer, delay = self._service.application.answer(request, head.stand_in)
        if isinstance(answer, Response):
            if delay:
                self._service.delays.add(self, answer, delay)
            else:
                self.respond(answer)
        elif isinstance(answer, Hang):
            self.is_hanging = True
        else:
            self.end()
            self._cut()

    def end(self) -> None:
        """Count the request as answered or given up, and free the memory of its body."""
        if self.is_over:
            return
        self.is_over = True
        if self.due is not None:
            self._service.delays.discard(self)
        if self.parts is not None:
            self.parts.release()
        if self.head.stand_in is not None:
            self.head.stand_in.counters.end_request()

    def respond(self, response: Response) -> None:
        """Send the answer; one that quotes what no header can have becomes a bare 500."""
        self.end()
        has_body = self.head.method != "HEAD"
        try:
            self._send(response, response.body if has_body else b"")
        except ValueError:
            _log.exception("sandbox answer failed", status=response.status)
            self._send(FAILED, FAILED.body if has_body else b"")

    @abstractmethod
    def _send(self, response: Response, body: bytes) -> None:
        """Send an answer with this body; raise ValueError before that if it has a header that cannot be."""

    @abstractmethod
    def _cut(self) -> None:
        """Send a part of an answer, and break it off."""
