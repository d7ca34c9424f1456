"""The app of the gateway: sessions of client events, and those of SignalR."""

from collections.abc import Mapping
from typing import Any

from uvicorn.protocols.utils import ClientDisconnected

from tocsin.gateway.admission import Admission
from tocsin.gateway.requests import ConnectRequest
from tocsin.gateway.serving import SessionServer
from tocsin.gateway.session_app import SessionApp
from tocsin.gateway.settings import EVENTS_PATH, WEBSOCKET_PATH, GatewaySettings
from tocsin.gateway.signalr.hub import CORS, Hub

PATHS = {"http": EVENTS_PATH, "websocket": WEBSOCKET_PATH}
DISCONNECTS: tuple[type[Exception], ...] = (ClientDisconnected,)


class GatewayApp(SessionApp):
    """Answers `GET /v1/events` with Server-Sent Events, `/v1/events/ws` with a WebSocket, and SignalR."""

    def __init__(self, settings: GatewaySettings, admission: Admission, server: SessionServer) -> None:
        super().__init__(settings, admission, server, PATHS, DISCONNECTS)
        self._hub = Hub(settings, admission, server)

    def _transport_name(self, scope: Any) -> str:
        return self._hub.transport_name(scope) if self._is_for_hub(scope) else super()._transport_name(scope)

    def _more_headers(self, scope: Any) -> Mapping[str, str]:
        return CORS if self._is_for_hub(scope) else {}

    def _check(self, scope: Any) -> None:
        if not self._is_for_hub(scope):
            super()._check(scope)

    async def _answer(
        self, request: ConnectRequest, headers: Mapping[str, str], scope: Any, receive: Any, send: Any
    ) -> None:
        if self._is_for_hub(scope):
            await self._hub.answer(request, headers, scope, receive, send)
        else:
            await super()._answer(request, headers, scope, receive, send)

    def _is_for_hub(self, scope: Any) -> bool:
        return self._hub.has(scope["path"])
