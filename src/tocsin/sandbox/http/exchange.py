"""One request and its answer: what is the same in every version of HTTP."""

from abc import ABC, abstractmethod
from http import HTTPMethod, HTTPStatus

import structlog

from tocsin.sandbox.app import FAILED
from tocsin.sandbox.faults.rules import Hang
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

    is_over = False
    is_hanging = False
    due: int | None = None
    """The moment of a delayed answer."""

    def __init__(self, service: Service, head: RequestHead, version: str) -> None:
        self._service = service
        self.head = head
        if head.stand_in is not None:
            head.stand_in.counters.start_request(version)

    def handle(self, body: bytes, server: str) -> None:
        """Handle the whole request, and answer now, later or never."""
        head = self.head
        request = ReceivedRequest(
            method=head.method,
            path=head.path,
            query=head.query,
            header=head.headers.get,
            body=body,
            origin=head.origin,
            server=server,
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
        """Count the request as answered or given up."""
        if self.is_over:
            return
        self.is_over = True
        if self.due is not None:
            self._service.delays.discard(self)
        if self.head.stand_in is not None:
            self.head.stand_in.counters.end_request()

    def body_of(self, response: Response) -> bytes:
        """Return the body to send, which answers to HEAD do not have."""
        return b"" if self.head.method == HTTPMethod.HEAD else response.body

    def respond(self, response: Response) -> None:
        """Send the answer; one that quotes what no header can have becomes a bare 500."""
        self.end()
        try:
            self._send(response)
        except ValueError:
            _log.exception("sandbox answer failed", status=response.status)
            self._send(FAILED)

    @abstractmethod
    def _send(self, response: Response) -> None:
        """Send an answer; raise ValueError before anything is sent if it has a header that cannot be."""

    @abstractmethod
    def _cut(self) -> None:
        """Send a part of an answer, and break it off."""
