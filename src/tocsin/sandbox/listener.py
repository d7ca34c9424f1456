"""The HTTP listeners of a sandbox."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from typing import Any

from granian.constants import Interfaces, SSLProtocols
from granian.http import HTTP2Settings
from granian.server.embed import Server

from tocsin.sandbox.certificates import Certificates
from tocsin.sandbox.errors import SandboxStartError, cannot_listen
from tocsin.sandbox.settings import SandboxSettings

_BACKLOG = 1_024
_MOST_OPEN_CONNECTIONS = 65_536
_START_SECONDS = 10.0
_STOP_SECONDS = 5.0
_PROBE_SECONDS = 0.002


@contextlib.asynccontextmanager
async def listening(
    application: Any, settings: SandboxSettings, port: int, certificates: Certificates | None
) -> AsyncIterator[str]:
    """Run granian inside the current loop, and yield its `host:port` once connections are accepted.

    At the end no more connections are accepted, and those in use have some seconds to end.
    """
    host = settings.host
    # Bound but never listening, this socket reserves the port until granian has bound it.
    reserved = _reserve_port(host, port)
    port = reserved.getsockname()[1]
    server = Server(
        application,
        address=host,
        port=port,
        interface=Interfaces.RSGI,
        backlog=_BACKLOG,
        backpressure=_MOST_OPEN_CONNECTIONS,
        http2_settings=HTTP2Settings(max_concurrent_streams=settings.max_concurrent_streams),
        websockets=False,
        log_enabled=False,
        ssl_cert=certificates.chain if certificates else None,
        ssl_key=certificates.key if certificates else None,
        ssl_protocol_min=SSLProtocols.tls12,
    )
    serving = asyncio.create_task(server.serve())
    try:
        with reserved:
            await _wait_until_reachable(serving, host, port)
        yield f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    finally:
        server.stop()  # type: ignore[no-untyped-call]
        await asyncio.wait([serving], timeout=_STOP_SECONDS)
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)


async def _wait_until_reachable(serving: asyncio.Task[None], host: str, port: int) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_START_SECONDS):
            while not serving.done():
                try:
                    _, writer = await asyncio.open_connection(host, port)
                except OSError:
                    await asyncio.sleep(_PROBE_SECONDS)
                else:
                    writer.close()
                    return
            await serving
            raise SandboxStartError(f"the sandbox stopped at once on {host}:{port}")
    raise SandboxStartError(f"the sandbox did not come up on {host}:{port} within {_START_SECONDS:g} s")


def _reserve_port(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        if port:
            # granian shares ports between processes; a taken one must be noticed before that.
            with socket.socket(family) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind((host, port))
        reserved = socket.socket(family)
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        reserved.bind((host, port))
    except OSError as error:
        raise cannot_listen(host, port, error) from error
    return reserved
