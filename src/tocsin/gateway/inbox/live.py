"""The live inboxes of one process: its sessions, and the duty that publishes to them."""

from typing import Any

import msgspec
from litestar.types import ASGIApp

from tocsin.api.settings import AuthSettings
from tocsin.gateway.admission import Admission
from tocsin.gateway.inbox.source import InboxSource
from tocsin.gateway.serving import SessionServer
from tocsin.gateway.session_app import SessionApp
from tocsin.gateway.sessions import Sessions
from tocsin.gateway.settings import INBOX_STREAM_PATH, INBOX_WEBSOCKET_PATH, GatewaySettings
from tocsin.store.pool import PoolSettings

PATHS = {"http": INBOX_STREAM_PATH, "websocket": INBOX_WEBSOCKET_PATH}
HISTORY = 20_000
"""Events kept for clients that reconnect: twenty seconds of a thousand a second."""


class Database(msgspec.Struct, frozen=True, kw_only=True):
    """The database whose inboxes are served."""

    url: str
    schema: str
    settings: PoolSettings

    def __repr__(self) -> str:
        """Show no address: it may hold a password."""
        return f"Database({self.schema})"


class LiveInbox:
    """Answers `GET /v1/inbox/stream` and `/v1/inbox/ws`; the `source` is a duty, to be run beside it."""

    def __init__(
        self,
        settings: GatewaySettings,
        auth: AuthSettings,
        database: Database,
        disconnects: tuple[type[Exception], ...] = (),
    ) -> None:
        settings = msgspec.structs.replace(settings, history=HISTORY)
        self._settings = settings
        self.sessions = Sessions(settings)
        self.source = InboxSource(database.url, database.schema, database.settings, self.sessions)
        self._admission = Admission(settings, auth, self.sessions, self.source)
        server = SessionServer(settings, self.sessions, self._admission)
        self.app = SessionApp(settings, self._admission, server, PATHS, disconnects)

    @staticmethod
    def has(scope: Any) -> bool:
        """Return whether a request is for a live inbox."""
        return scope.get("path") in PATHS.values()

    def beside(self, app: ASGIApp) -> ASGIApp:
        """Return an app that answers live inboxes and all WebSockets here, and everything else there."""

        async def answer(scope: Any, receive: Any, send: Any) -> None:
            if self.has(scope) or scope["type"] == "websocket":
                await self.app(scope, receive, send)
            else:
                await app(scope, receive, send)

        return answer

    async def drain(self, seconds: float) -> None:
        """End every session, within a time."""
        await self.sessions.drain(seconds)

    async def aclose(self) -> None:
        """Close the connection to the identity provider."""
        await self._admission.aclose()
