"""Serving the app of the gateway with uvicorn, in the event loop of the process.

A connection that is open and quiet takes little memory here, and what a client sends is bounded: headers of
64 KiB within a time, and messages of 4 KiB. A client that acknowledges nothing is disconnected.
"""

import asyncio
import contextlib
import logging
import socket
import sys
from collections.abc import Callable, Iterator
from math import ceil
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame

from tocsin.api.server import bound_socket, first_of
from tocsin.api.settings import HttpSettings

LARGEST_FRAME = 4_096
UNREAD_SECONDS = 60.0
"""How long a client may leave what was sent to it unacknowledged, or its receive window full."""
_BAD_REQUEST = b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


async def serve_gateway(
    app: Any,
    settings: HttpSettings,
    stop: asyncio.Event,
    on_ready: Callable[[str], None],
    *,
    websockets: bool,
) -> None:
    """Serve until `stop` is set, then finish the open requests.

    `on_ready` is called with the base URL once connections are accepted.
    """
    with bound_socket(settings, "gateway") as listener:
        if sys.platform == "linux":
            # Accepted connections inherit it.
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, ceil(UNREAD_SECONDS * 1_000))
        config = uvicorn.Config(
            app,
            http=HttpProtocol,
            ws=WebSocketProtocol if websockets else "none",
            ws_max_size=LARGEST_FRAME,
            ws_ping_interval=None,
            ws_per_message_deflate=False,
            lifespan="off",
            interface="asgi3",
            log_config=None,
            # What the app raises it has logged; the rest has addresses with tokens, and is up to strangers.
            log_level=logging.CRITICAL + 1,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            backlog=settings.backlog,
            limit_concurrency=settings.max_connections + 1,
            timeout_keep_alive=ceil(settings.header_seconds),
        )
        server = _Server(config, on_ready)
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            await first_of(serving, stop)
        finally:
            server.should_exit = True
            await asyncio.wait([serving], timeout=settings.drain_seconds)
            server.force_exit = True
            for connection in tuple(server.server_state.connections):
                connection.transport.abort()
            await serving


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, on_ready: Callable[[str], None]) -> None:
        super().__init__(config)
        self._on_ready = on_ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, and report the address."""
        await super().startup(sockets)
        [listener] = sockets or []
        host, port = listener.getsockname()[:2]
        self._on_ready(f"http://{f'[{host}]' if ':' in host else host}:{port}")

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the process."""
        yield


class HttpProtocol(H11Protocol):
    """HTTP/1.1 with a bound for connections, and for the time until the headers of a request are complete."""

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """Begin to wait for a request, unless there are too many connections."""
        super().connection_made(transport)
        if self.limit_concurrency is not None and len(self.connections) >= self.limit_concurrency:
            transport.abort()
        else:
            self._await_request()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        super().connection_lost(exc)
        if self._deadline is not None:
            self._deadline.cancel()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        super().on_response_complete()
        self._await_request()

    def send_400_response(self, msg: str) -> None:
        """Answer what is not HTTP, if there is no answer yet."""
        if self.conn.our_state in {h11.IDLE, h11.SEND_RESPONSE}:
            super().send_400_response(msg)
        else:
            self.transport.abort()

    def _await_request(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = self.loop.call_later(self.timeout_keep_alive, self._check_request)

    def _check_request(self) -> None:
        cycle: Any = self.cycle
        has_request = cycle is not None and not cycle.response_complete
        if not has_request and self.transport.get_protocol() is self:
            self.transport.close()


class WebSocketProtocol(WebSocketsSansIOProtocol):
    """A WebSocket whose client has little to send: what was read at once is reported at once.

    Where one message ends and another begins is lost: that a client sent any is enough, or it is a client of
    SignalR, whose messages have separators of their own.
    """

    def data_received(self, data: bytes) -> None:
        """Handle what the client sends; refuse a handshake that has lines that are too long."""
        super().data_received(data)
        if not self.handshake_initiated and self.conn.handshake_exc is not None:
            self.transport.write(_BAD_REQUEST)
            self.transport.close()
        if self.frames:
            self.curr_msg_data_type = "bytes"
            self.send_receive_event_to_app()

    def handle_text(self, event: Frame) -> None:
        """Keep the first frame of a message until all that was read is reported."""
        self.frames.append(bytes(event.data))

    def handle_bytes(self, event: Frame) -> None:
        """Keep the first frame of a message likewise."""
        self.frames.append(bytes(event.data))

    def handle_cont(self, event: Frame) -> None:
        """Keep the rest of a message likewise."""
        self.frames.append(bytes(event.data))

    def pause_writing(self) -> None:
        """Read nothing from a client that takes nothing: pings of its own would pile up answers."""
        super().pause_writing()
        self.transport.pause_reading()

    def resume_writing(self) -> None:
        """Read again, unless a message waits for the app."""
        super().resume_writing()
        if not self.read_paused:
            self.transport.resume_reading()
