"""Serving the app with granian, in the event loop of the process."""

import asyncio
import errno
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from math import ceil
from typing import Protocol

from granian.constants import HTTPModes, Interfaces
from granian.http import HTTP1Settings
from granian.rsgi import HTTPProtocol, Scope  # type: ignore[attr-defined]
from granian.server.embed import Server
from litestar.types import ASGIApp

from tocsin.api.settings import HttpSettings
from tocsin.domain.errors import TocsinError

_LISTEN_CHECK_SECONDS = 0.01


class RSGIApp(Protocol):
    """An app that answers granian directly."""

    async def __rsgi__(self, scope: Scope, protocol: HTTPProtocol) -> None:
        """Answer one request."""


class PortTakenError(TocsinError):
    """Another process listens on the port."""


class ListenError(TocsinError):
    """The address cannot be listened on."""


async def serve_api(
    app: ASGIApp | RSGIApp,
    settings: HttpSettings,
    stop: asyncio.Event,
    on_ready: Callable[[str], None],
    *,
    interface: Interfaces = Interfaces.ASGI,
    section: str = "http",
    websockets: bool = False,
    on_stop: Callable[[], Awaitable[None]] | None = None,
) -> None:
    """Serve until `stop` is set, then finish the open requests.

    `on_stop` is called before that, to end those that do not end by themselves. `on_ready` is called with the
    base URL once connections are accepted. Errors name the settings `section` that the address is from.
    """
    # Granian would share a port that another process has.
    with bound_socket(settings, section) as probe:
        address, port = probe.getsockname()[:2]
    server = Server(
        app,
        address=address,
        port=port,
        interface=interface,
        http=HTTPModes.auto,
        websockets=websockets,
        backlog=settings.backlog,
        backpressure=settings.max_connections,
        http1_settings=HTTP1Settings(header_read_timeout=ceil(settings.header_seconds * 1_000)),
        log_enabled=False,
    )
    serving = asyncio.create_task(server.serve())
    try:
        await _until_listening(serving, address, port)
        on_ready(f"http://{f'[{address}]' if ':' in address else address}:{port}")
        await first_of(serving, stop)
        if on_stop is not None:
            await on_stop()
    finally:
        server.stop()  # type: ignore[no-untyped-call]  # granian ships no types for it
        await asyncio.wait([serving], timeout=settings.drain_seconds)
        serving.cancel()
        with suppress(asyncio.CancelledError):
            await serving


def bound_socket(settings: HttpSettings, section: str) -> socket.socket:
    """Bind the address of a settings `section`; raise if it is not of this machine, or the port is taken."""
    prefix = f"TOCSIN_{section.upper()}__"
    try:
        found = socket.getaddrinfo(settings.host, settings.port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise ListenError(
            f"The host {settings.host!r} has no address ({error}). Set {prefix}HOST to one of this machine's."
        ) from error
    family, _, _, _, address = found[0]
    bound = socket.socket(family)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind(address)
    except OSError as error:
        bound.close()
        raise _cannot_listen(settings, prefix, error) from error
    return bound


def _cannot_listen(settings: HttpSettings, prefix: str, error: OSError) -> TocsinError:
    if error.errno == errno.EADDRINUSE:
        return PortTakenError(
            f"Port {settings.port} on {settings.host} is taken by another process. "
            f"Stop that one, or set {prefix}PORT to another port (0 takes a free one)."
        )
    return ListenError(
        f"Cannot listen on {settings.host}:{settings.port}: {error}. Check {prefix}HOST and {prefix}PORT."
    )


async def _until_listening(serving: asyncio.Task[None], address: str, port: int) -> None:
    while not serving.done():
        try:
            _, writer = await asyncio.open_connection(address, port)
        except OSError:
            await asyncio.sleep(_LISTEN_CHECK_SECONDS)
        else:
            writer.close()
            await writer.wait_closed()
            return
    await serving
    raise ListenError(f"The server ended before it listened on port {port}.")


async def first_of(serving: asyncio.Task[None], stop: asyncio.Event) -> None:
    """Wait until `stop` is set; raise if the server ends before that."""
    stopped = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait([serving, stopped], return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopped.cancel()
    if serving.done():
        await serving
        raise ListenError("The HTTP server ended by itself.")
