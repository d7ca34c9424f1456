"""One listening address of a sandbox."""

import asyncio
import contextlib
import socket
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


class Listener:
    """A granian server inside the running loop, started and stopped with a sandbox."""

    def __init__(
        self, application: Any, settings: SandboxSettings, port: int, certificates: Certificates | None
    ) -> None:
        # Bound but never listening, this socket reserves the port until granian has bound it.
        self._reserved_port = _reserve_port(settings.host, port)
        self.host = settings.host
        self.port: int = self._reserved_port.getsockname()[1]
        self._server = Server(
            application,
            address=self.host,
            port=self.port,
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
        self._serving: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Serve, and return once connections are accepted."""
        self._serving = asyncio.create_task(self._server.serve())
        try:
            async with asyncio.timeout(_START_SECONDS):
                while not await self._reachable():
                    if self._serving.done():
                        await self._serving
                        raise SandboxStartError(f"the sandbox stopped at once on {self.host}:{self.port}")
                    await asyncio.sleep(_PROBE_SECONDS)
        except TimeoutError:
            await self.stop()
            raise SandboxStartError(
                f"the sandbox did not come up on {self.host}:{self.port} within {_START_SECONDS:g} s"
            ) from None
        finally:
            self._reserved_port.close()

    async def stop(self) -> None:
        """Accept no more connections, and give those in use some seconds to end."""
        if self._serving is None:
            return
        self._server.stop()  # type: ignore[no-untyped-call]
        done, _ = await asyncio.wait([self._serving], timeout=_STOP_SECONDS)
        if not done:
            self._serving.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._serving
        self._serving = None

    async def _reachable(self) -> bool:
        try:
            _, writer = await asyncio.open_connection(self.host, self.port)
        except OSError:
            return False
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
        return True


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
