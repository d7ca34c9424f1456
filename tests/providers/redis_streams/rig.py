"""The providers that append to Redis Streams, before a real server."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlsplit

from msgspec.structs import replace
from redis.asyncio import Redis

from tests.providers.rig import NOW, a_message
from tests.providers.wire import Address
from tocsin.domain.delivery.message import HandOff, Message
from tocsin.domain.delivery.outcome import Outcome
from tocsin.providers.gateway_stream.provider import GatewayStreamProvider
from tocsin.providers.gateway_stream.settings import GatewayStreamSettings
from tocsin.providers.mail_stream.provider import MailStreamProvider
from tocsin.providers.mail_stream.settings import MailStreamSettings
from tocsin.providers.redis_streams.provider import StreamProvider

TABLES = Path(__file__).parent / "tables"
PAYLOAD = {"game_id": "g-7", "turn_number": 12}


def a_hand_off(name: str, **changes: Any) -> HandOff:
    hand_off = HandOff(
        route_id=f"push:user:{name}",
        event_id=f"1767225600000-0/push:user:{name}",
        user_id=name,
        request_id="request-1",
        trace_id="trace-1",
        accepted_at=NOW,
        payload=PAYLOAD,
        locale="en",
        table="probe.Mixed",
        fields=("game_id", "turn_number"),
    )
    return replace(hand_off, **changes)


class StreamRig(ABC):
    """A provider, and the stream that it appends to."""

    stream: ClassVar[str]
    failed: ClassVar[str]
    identity: ClassVar[bytes]
    """The field that a reader drops repeats by."""

    def __init__(self, redis: Redis, url: str) -> None:
        self.redis = redis
        self.url = url
        self._opened: list[StreamProvider] = []

    @property
    def address(self) -> Address:
        parts = urlsplit(self.url)
        return Address(str(parts.hostname), parts.port or 0)

    def provider(self, **settings: Any) -> StreamProvider:
        """Give a provider that is closed with the rig."""
        built = self.build(**{"enabled": True, "url": self.url, "timeout": 5.0} | settings)
        self._opened.append(built)
        return built

    def through(self, url: str) -> str:
        """Give the address of Redis behind a proxy."""
        return f"redis://{urlsplit(url).netloc}/0"

    async def aclose(self) -> None:
        for provider in self._opened:
            await provider.aclose()

    def message(self, name: str, **changes: Any) -> Message:
        return a_message(name, hand_off=a_hand_off(name, **changes))

    async def send(self, provider: StreamProvider, *names: str) -> list[Outcome]:
        return list(await provider.send([self.message(name) for name in names], now=NOW))

    async def entries(self) -> list[tuple[str, Mapping[bytes, bytes]]]:
        found: Any = await self.redis.xrange(self.stream)
        return [(entry_id.decode(), fields) for entry_id, fields in found]

    async def appended(self) -> list[str]:
        """List whom the entries are for, in order."""
        found = [fields[self.identity].decode() for _, fields in await self.entries()]
        return [identity.rpartition(":")[2] for identity in found]

    @abstractmethod
    def build(self, **settings: Any) -> StreamProvider:
        """Make a provider of this kind."""


class GatewayRig(StreamRig):
    stream = "gateway:client-events"
    failed = "gateway_stream_publish_failed"
    identity = b"event_id"

    def build(self, **settings: Any) -> StreamProvider:
        return GatewayStreamProvider(GatewayStreamSettings(**{"tables": str(TABLES)} | settings))


class MailRig(StreamRig):
    stream = "mail:delivery_commands"
    failed = "mail_stream_publish_failed"
    identity = b"delivery_id"

    def build(self, **settings: Any) -> StreamProvider:
        return MailStreamProvider(MailStreamSettings(**settings))


RIGS = (GatewayRig, MailRig)
