"""What an engine hands to a provider, and what a provider is."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import ClassVar, Protocol

import msgspec

from tocsin.domain.ids import DeliveryId, NotificationId
from tocsin.domain.outcome import Outcome


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """One rendered delivery, ready for one target."""

    delivery_id: DeliveryId
    notification_id: NotificationId
    type: str
    target: str
    title: str
    body: str
    data: Mapping[str, str]
    platform: str | None = None
    collapse_key: str | None = None
    expires_at: datetime | None = None

    def __repr__(self) -> str:
        """Name the delivery; never show the target, which is a secret."""
        return f"Message({self.type}, delivery_id={self.delivery_id})"


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What a provider takes at most."""

    payload_bytes: int
    batch: int
    ttl_seconds: int


class Provider(Protocol):
    """A way to reach a device or an address.

    One outcome per message, in order; an answer is never an exception. A provider
    does not touch the store, does not sleep and does not retry.
    """

    name: ClassVar[str]
    limits: ClassVar[Limits]

    @property
    def concurrency(self) -> int:
        """How many messages may be under way at once."""
        ...

    async def prepare(self) -> None:
        """Do what can be done ahead of the first message."""
        ...

    async def send(self, batch: Sequence[Message], *, now: datetime) -> Sequence[Outcome]:
        """Hand the messages over and say what became of each."""
        ...

    async def aclose(self) -> None:
        """Let go of every connection."""
        ...
