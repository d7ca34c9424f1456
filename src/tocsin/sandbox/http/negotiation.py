"""Chooses between HTTP/2 and HTTP/1.1 for each connection."""

import asyncio
from typing import cast

from tocsin.http2.frames import PREFACE
from tocsin.sandbox.http.http1_connection import Http1Connection
from tocsin.sandbox.http.http2_connection import Http2Connection
from tocsin.sandbox.http.service import Service

H2, HTTP_1_1 = "h2", "http/1.1"


class Negotiation(asyncio.Protocol):
    """Chooses by ALPN; without it by the first bytes: a client of HTTP/2 begins with its preface."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._transport: asyncio.Transport | None = None
        self._first = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Choose at once if the client asked for HTTP/2 by ALPN."""
        self._transport = cast("asyncio.Transport", transport)
        self._service.opened(self)
        if self._service.is_closing:
            self._transport.abort()
            return
        tls = transport.get_extra_info("ssl_object")
        if tls is not None and tls.selected_alpn_protocol() == H2:
            self._become(Http2Connection(self._service))

    def data_received(self, data: bytes) -> None:
        """Choose by what the client sends first."""
        self._first += data
        if PREFACE.startswith(self._first):
            # As long as it may become the preface, and when it just has.
            if len(self._first) == len(PREFACE):
                self._become(Http2Connection(self._service))
        elif self._first.startswith(PREFACE):
            self._become(Http2Connection(self._service))
        else:
            self._become(Http1Connection(self._service))

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - it is lost, whatever the cause
        """Forget a connection that said nothing."""
        self._service.closed(self)

    def tick(self, now: float) -> None:
        """Leave a silent connection open, as clients open some ahead."""

    def shut_down(self) -> None:
        """Close."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close at once."""
        if self._transport is not None:
            self._transport.abort()

    def _become(self, connection: Http1Connection | Http2Connection) -> None:
        if self._transport is None:
            return
        self._service.closed(self)
        self._transport.set_protocol(connection)
        connection.connection_made(self._transport)
        if self._first:
            connection.data_received(self._first)
