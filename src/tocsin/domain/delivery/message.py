"""What an engine hands to a provider, and what a provider is."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, ClassVar, Literal, Protocol, runtime_checkable

import msgspec

from tocsin.domain.delivery.outcome import Outcome, ReceiptOutcome
from tocsin.domain.ids import DeliveryId, NotificationId

TargetKind = Literal["token", "fid", "topic", "condition"]
PushType = Literal["alert", "background", "voip"]
Severity = Literal["info", "warning", "critical"]


class PushAppearance(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a push looks and what it does on the device, besides its words.

    `deep_link` is a place in the app, in the way of each platform; `route` one in the app's own router.
    `channel` is Android's notification channel, `click_action` Android's intent or Apple's category.
    """

    push_type: PushType = "alert"
    severity: Severity = "info"
    image: str | None = None
    icon: str | None = None
    sound: str | None = None
    badge: int | None = None
    deep_link: str | None = None
    route: str | None = None
    click_action: str | None = None
    channel: str | None = None
    analytics_label: str | None = None


DEFAULT_APPEARANCE = PushAppearance()


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """One rendered delivery, ready for one target.

    `target` is a device token, a web push subscription as JSON, a mail address or a webhook's URL.
    A mail has its subject as `title`, its text as `body`, and may have `html` and `headers`; a webhook is
    sent `payload` and is signed with `secret`.
    """

    delivery_id: DeliveryId
    notification_id: NotificationId
    type: str
    target: str
    target_kind: TargetKind = "token"
    title: str
    body: str
    data: Mapping[str, str]
    appearance: PushAppearance = DEFAULT_APPEARANCE
    html: str | None = None
    headers: Mapping[str, str] = {}
    payload: Mapping[str, Any] = {}
    secret: str | None = None
    platform: str | None = None
    locale: str | None = None
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


@runtime_checkable
class ManyHosts(Protocol):
    """A provider whose targets live on hosts of their own, each of which may be down by itself."""

    def host_of(self, target: str) -> str:
        """Name the host that a target lives on; nothing if it cannot be told."""
        ...


@runtime_checkable
class GivesReceipts(Protocol):
    """A provider that says later what became of the messages it took."""

    receipts_after: ClassVar[timedelta]
    receipts_kept: ClassVar[timedelta]
    receipts_batch: ClassVar[int]

    async def receipts(
        self, message_ids: Sequence[str], *, now: datetime
    ) -> Sequence[ReceiptOutcome] | Outcome:
        """Ask what became of messages: one answer each, in order, or why none could be had."""
        ...
