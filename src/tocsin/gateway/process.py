"""The gateway as a process: reads the stream, serves sessions, and drains them when it is stopped."""

import asyncio
import resource
from collections.abc import Callable

import structlog

from tocsin.api.settings import AuthSettings, HttpSettings
from tocsin.gateway.admission import Admission
from tocsin.gateway.app import GatewayApp
from tocsin.gateway.reader import EventReader
from tocsin.gateway.server import serve_gateway
from tocsin.gateway.serving import SessionServer
from tocsin.gateway.sessions import Sessions
from tocsin.gateway.settings import GatewaySettings
from tocsin.ingress.redis_streams.settings import RedisSettings

SPARE_CONNECTIONS = 256
"""Beyond the sessions, so that those who are refused can be answered."""
SERVER_SHARE = 0.2
"""The share of the time to drain that is left to close connections."""

_log = structlog.stdlib.get_logger(__name__)


class Gateway:
    """One replica: all of them read the stream, and each has sessions of its own.

    The `reader` is a duty, to be run beside the sessions.
    """

    def __init__(self, settings: GatewaySettings, redis: RedisSettings, auth: AuthSettings) -> None:
        self._settings = settings
        self._sessions = Sessions(settings)
        self.reader = EventReader(settings, redis, self._sessions)
        self._admission = Admission(settings, auth, self._sessions, self.reader)
        server = SessionServer(settings, self._sessions, self._admission)
        self._app = GatewayApp(settings, self._admission, server)

    async def fault(self) -> str | None:
        """Return why the process is not ready, None if it is."""
        return "The gateway is stopping." if self._sessions.is_stopping else self.reader.fault

    async def run(self, stop: asyncio.Event, on_ready: Callable[[str], None]) -> None:
        """Serve until `stop` is set; then end the sessions, and the process with the last of them."""
        settings = self._settings
        raise_file_limit(settings.max_sessions + SPARE_CONNECTIONS)
        http = HttpSettings(
            host=settings.host,
            port=settings.port,
            max_connections=settings.max_sessions + SPARE_CONNECTIONS,
            drain_seconds=settings.drain_seconds * SERVER_SHARE,
        )
        drained = asyncio.Event()
        draining = asyncio.create_task(self._drain(stop, drained))
        try:
            await serve_gateway(self._app, http, drained, on_ready, websockets=settings.websockets)
        finally:
            draining.cancel()
            await asyncio.wait([draining])
            await self._admission.aclose()

    async def _drain(self, stop: asyncio.Event, drained: asyncio.Event) -> None:
        await stop.wait()
        await self._sessions.drain(self._settings.drain_seconds * (1 - SERVER_SHARE))
        drained.set()


def raise_file_limit(wanted: int) -> None:
    """Raise the limit of open files as far as the system allows; each session is one."""
    limit, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY or limit >= wanted:
        return
    allowed = wanted if most == resource.RLIM_INFINITY else min(wanted, most)
    resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, most))
    if allowed < wanted:
        _log.warning("file limit too low", limit=allowed, wanted=wanted, detail="raise it with ulimit -n")
