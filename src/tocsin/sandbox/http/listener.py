"""The HTTP listeners of a sandbox."""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator

from tocsin.sandbox.app import Application
from tocsin.sandbox.certificates import Certificates
from tocsin.sandbox.errors import cannot_listen
from tocsin.sandbox.http.negotiation import H2, HTTP_1_1, Negotiation
from tocsin.sandbox.http.service import Service
from tocsin.sandbox.settings import SandboxSettings

_BACKLOG = 1_024
_TICK_SECONDS = 1.0
_HANDSHAKE_SECONDS = 10.0
_SHUTDOWN_SECONDS = 1.0
_STOP_SECONDS = 5.0


@contextlib.asynccontextmanager
async def listening(
    application: Application, settings: SandboxSettings, port: int, certificates: Certificates | None
) -> AsyncIterator[str]:
    """Listen inside the current loop, and yield `host:port`.

    At the end no more connections are accepted, and those in use have some seconds to end.
    """
    host = settings.host
    bound = _bind(host, port)
    service = Service(application, "https" if certificates else "http", settings.max_concurrent_streams)
    seconds = _HANDSHAKE_SECONDS if certificates else None
    server = await asyncio.get_running_loop().create_server(
        lambda: Negotiation(service),
        sock=bound,
        backlog=_BACKLOG,
        ssl=_tls_context(certificates) if certificates else None,
        ssl_handshake_timeout=seconds,
        ssl_shutdown_timeout=_SHUTDOWN_SECONDS if certificates else None,
    )
    ticking = asyncio.create_task(_tick(service))
    port = bound.getsockname()[1]
    try:
        yield f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    finally:
        ticking.cancel()
        server.close()
        await _close_connections(service)


async def _tick(service: Service) -> None:
    loop = asyncio.get_running_loop()
    while True:
        await asyncio.sleep(_TICK_SECONDS)
        now = loop.time()
        for connection in list(service.connections):
            connection.tick(now)


async def _close_connections(service: Service) -> None:
    service.is_closing = True
    for connection in list(service.connections):
        connection.shut_down()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_STOP_SECONDS):
            await service.idle.wait()
    for connection in list(service.connections):
        connection.abort()
    # Transports tell their connections in the next turn of the loop.
    await asyncio.sleep(0)


def _tls_context(certificates: Certificates) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(certificates.chain, certificates.key)
    context.set_alpn_protocols([H2, HTTP_1_1])
    return context


def _bind(host: str, port: int) -> socket.socket:
    bound = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
    except OSError as error:
        bound.close()
        raise cannot_listen(host, port, error) from error
    return bound
