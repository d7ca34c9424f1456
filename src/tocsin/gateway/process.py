"""The gateway as a process: reads its sources, serves sessions, and drains them when it is stopped."""

import asyncio
import resource
from collections.abc import Callable
from typing import Any

import structlog

from tocsin.api.settings import AuthSettings, HttpSettings
from tocsin.engine.duty import Duty
from tocsin.gateway.admission import Admission
from tocsin.gateway.app import DISCONNECTS, GatewayApp
from tocsin.gateway.inbox.live import Database, LiveInbox
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


class Events:
    """The sessions of client events; the `reader` of their stream is a duty."""

    def __init__(self, settings: GatewaySettings, redis: RedisSettings, auth: AuthSettings) -> None:
        self.sessions = Sessions(settings)
        self.reader = EventReader(settings, redis, self.sessions)
        self._admission = Admission(settings, auth, self.sessions, self.reader)
        server = SessionServer(settings, self.sessions, self._admission)
        self.app = GatewayApp(settings, self._admission, server)

    async def aclose(self) -> None:
        """Close the connection to the identity provider."""
        await self._admission.aclose()


class Gateway:
    """One replica: all of them read the same sources, and each has sessions of its own.

    It serves client events of a Redis stream, live inboxes of a database, or both. The `duties` are to be run
    beside the sessions.
    """

    def __init__(
        self,
        settings: GatewaySettings,
        redis: RedisSettings,
        auth: AuthSettings,
        database: Database | None = None,
    ) -> None:
        self._settings = settings
        has_stream = bool(settings.url or redis.url)
        self.events = Events(settings, redis, auth) if has_stream else None
        self.inbox = LiveInbox(settings, auth, database, DISCONNECTS) if database else None

    @property
    def duties(self) -> tuple[Duty, ...]:
        """What reads the sources."""
        readers: list[Duty] = [self.events.reader] if self.events else []
        return (*readers, *([self.inbox.source] if self.inbox else []))

    async def fault(self) -> str | None:
        """Return why the process is not ready, None if it is."""
        if any(sessions.is_stopping for sessions in self._all_sessions()):
            return "The gateway is stopping."
        faults = (self.events and self.events.reader.fault, self.inbox and self.inbox.source.fault)
        return next((fault for fault in faults if fault), None)

    def _all_sessions(self) -> list[Sessions]:
        return [each.sessions for each in (self.events, self.inbox) if each is not None]

    async def _answer(self, scope: Any, receive: Any, send: Any) -> None:
        if self.inbox is not None and (self.events is None or self.inbox.has(scope)):
            await self.inbox.app(scope, receive, send)
        elif self.events is not None:
            await self.events.app(scope, receive, send)

    async def run(self, stop: asyncio.Event, on_ready: Callable[[str], None]) -> None:
        """Serve until `stop` is set; then end the sessions, and the process with the last of them."""
        settings = self._settings
        connections = settings.max_sessions * len(self._all_sessions()) + SPARE_CONNECTIONS
        raise_file_limit(connections)
        http = HttpSettings(
            host=settings.host,
            port=settings.port,
            max_connections=connections,
            drain_seconds=settings.drain_seconds * SERVER_SHARE,
        )
        drained = asyncio.Event()
        draining = asyncio.create_task(self._drain(stop, drained))
        try:
            await serve_gateway(self._answer, http, drained, on_ready, websockets=settings.websockets)
        finally:
            draining.cancel()
            await asyncio.wait([draining])
            for each in (self.events, self.inbox):
                if each is not None:
                    await each.aclose()

    async def _drain(self, stop: asyncio.Event, drained: asyncio.Event) -> None:
        await stop.wait()
        seconds = self._settings.drain_seconds * (1 - SERVER_SHARE)
        await asyncio.gather(*(sessions.drain(seconds) for sessions in self._all_sessions()))
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
