"""The settings of the gateway, readable without the packages that serve it."""

from collections.abc import Iterator
from typing import Annotated
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

from tocsin.domain.faults import Fault
from tocsin.ingress.redis_streams.settings import url_fault
from tocsin.wire.streams.client_events import DEFAULT_STREAM
from tocsin.wire.streams.intents import LARGEST_ENTRY

ANY_ORIGIN = "*"
EVENTS_PATH = "/v1/events"
WEBSOCKET_PATH = "/v1/events/ws"
INBOX_STREAM_PATH = "/v1/inbox/stream"
INBOX_WEBSOCKET_PATH = "/v1/inbox/ws"
SIGNALR_PATIENCE = 30.0
"""Seconds without a message after which a client of SignalR gives up, unless it is told otherwise."""
_MEBIBYTE = 1_048_576


class GatewaySettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The stream of client events, where the gateway listens, and the limits of its sessions.

    `url` is the Redis server, `redis.url` if left out. Of the stream the newest `history` entries are kept in
    memory for clients that resume; it should hold at least as many as the stream does. Pages of other origins
    may connect if `allowed_origins` lists theirs, such as `https://app.example.com`, or `*`. An event with a
    `device_session_id` is sent to sessions whose token has it in `device_session_claim`. Without `websockets`
    there are Server-Sent Events alone.

    A session that has more than `queue_events` events or `queue_bytes` waiting to be sent is too slow and is
    closed. One without an event gets a ping within `ping_seconds`. Clients are advised to reconnect after one
    to two times `retry_seconds`, and after a stop within `reconnect_seconds`, each at another moment. A stop
    waits `drain_seconds` for the sessions to end.

    At `signalr_path`, such as `/hubs/notifications`, clients of SignalR connect; left out, they cannot. One
    from which nothing was heard for `signalr_client_seconds` is disconnected.
    """

    url: str = ""
    stream: Annotated[str, Meta(min_length=1, max_length=512, pattern=r"^[^\x00]+\Z")] = DEFAULT_STREAM
    history: Annotated[int, Meta(ge=0, le=1_000_000)] = 2_048
    host: Annotated[str, Meta(min_length=1)] = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65_535)] = 8475
    allowed_origins: list[str] = []
    websockets: bool = True
    signalr_path: Annotated[str, Meta(max_length=200, pattern=r"^(/[A-Za-z0-9_~-]+)*\Z")] = ""
    signalr_client_seconds: Annotated[float, Meta(gt=0, le=3_600)] = SIGNALR_PATIENCE
    device_session_claim: Annotated[str, Meta(min_length=1)] = "sid"
    max_sessions: Annotated[int, Meta(ge=1, le=1_000_000)] = 10_000
    max_sessions_per_user: Annotated[int, Meta(ge=1)] = 20
    queue_events: Annotated[int, Meta(ge=1, le=100_000)] = 1_000
    queue_bytes: Annotated[int, Meta(ge=LARGEST_ENTRY)] = _MEBIBYTE
    ping_seconds: Annotated[float, Meta(gt=0, le=600)] = 20.0
    retry_seconds: Annotated[float, Meta(gt=0, le=600)] = 2.0
    reconnect_seconds: Annotated[float, Meta(gt=0, le=3_600)] = 15.0
    drain_seconds: Annotated[float, Meta(gt=0)] = 20.0

    def __repr__(self) -> str:
        """Show no address: it may hold a password."""
        return f"GatewaySettings({self.stream})"


def gateway_settings_faults(settings: GatewaySettings) -> Iterator[Fault]:
    """Check the address of Redis, the origins, and what clients of SignalR need."""
    if settings.url and (message := url_fault(settings.url)):
        yield Fault(field="gateway.url", code="invalid", message=message)
    for origin in settings.allowed_origins:
        if origin != ANY_ORIGIN and not _is_origin(origin):
            message = f"{origin!r} is not an origin as browsers send it: https://app.example.com, or *"
            yield Fault(field="gateway.allowed_origins", code="invalid", message=message)
    if settings.signalr_path in {EVENTS_PATH, WEBSOCKET_PATH, INBOX_STREAM_PATH, INBOX_WEBSOCKET_PATH}:
        message = f"{settings.signalr_path} has events of the gateway's own; choose another path"
        yield Fault(field="gateway.signalr_path", code="invalid", message=message)
    if settings.signalr_path and settings.ping_seconds >= SIGNALR_PATIENCE:
        message = f"must be below {SIGNALR_PATIENCE:g} where SignalR is served: its clients give up then"
        yield Fault(field="gateway.ping_seconds", code="contradiction", message=message)


def _is_origin(text: str) -> bool:
    try:
        parts = urlsplit(text)
        has_host = bool(parts.hostname) and parts.username is None
        plain = f"{parts.scheme}://{parts.hostname}" + (f":{parts.port}" if parts.port else "")
    except ValueError:
        return False
    return has_host and text.isascii() and text.replace("[", "").replace("]", "") == plain
