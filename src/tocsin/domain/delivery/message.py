"""The message that a provider sends, and the protocols of providers."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, ClassVar, Literal, Protocol, runtime_checkable

import msgspec

from tocsin.domain.delivery.outcome import Outcome, ReceiptOutcome
from tocsin.domain.ids import DeliveryId, NotificationId

TargetKind = Literal["token", "fid", "topic", "condition"]
PushType = Literal["alert", "background", "voip"]
Severity = Literal["info", "warning", "critical"]


class PushAppearance(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a push looks and what it does on the device, besides its texts.

    `deep_link` is a URI that opens a place in the app; `route` is a path in the app's own router.
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


class HandOff(msgspec.Struct, frozen=True, kw_only=True):
    """One delivery for a service that shapes the message itself: the payload as data, no texts.

    `event_id` is `<notification>/<route id>`, the same in every attempt; the notification goes by the id that
    its source knows it by, where it has one. `table` and `fields` are those of the type's event.
    """

    route_id: str
    event_id: str
    user_id: str | None
    request_id: str | None
    trace_id: str | None
    accepted_at: datetime
    payload: Mapping[str, Any]
    locale: str
    table: str | None = None
    fields: tuple[str, ...] = ()

    def __repr__(self) -> str:
        """Show the table, never the recipient or the payload."""
        return f"HandOff({self.table})"


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """One rendered delivery, ready for one target.

    `target` is a device token, a web push subscription as JSON, a mail address or a webhook's URL.
    A mail has its subject as `title`, its text as `body`, and may have `html` and `headers`; a webhook is
    sent `payload` and is signed with `secret`; `sender_key` is the id of the key that a browser subscribed
    with. `traceparent` is the trace that its receiver may continue, `reference` its producer's own id for it.
    A provider that hands off to another service gets `hand_off` and no texts.
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
    sender_key: str | None = None
    platform: str | None = None
    locale: str | None = None
    collapse_key: str | None = None
    expires_at: datetime | None = None
    traceparent: str | None = None
    reference: str | None = None
    hand_off: HandOff | None = None

    def __repr__(self) -> str:
        """Show the type and the delivery id, never the target, which is a secret."""
        return f"Message({self.type}, delivery_id={self.delivery_id})"


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The most that a provider accepts: bytes, messages per batch, time to live."""

    payload_bytes: int
    batch: int
    ttl_seconds: int


class Provider(Protocol):
    """Sends messages to devices or addresses.

    `send` returns one outcome per message, in order, and never raises for an answer. A provider does not
    use the store, does not sleep and does not retry.
    """

    name: ClassVar[str]
    limits: ClassVar[Limits]

    @property
    def concurrency(self) -> int:
        """How many messages may be in flight at once."""
        ...

    async def prepare(self) -> None:
        """Do what can be done before the first message, such as opening connections."""
        ...

    async def send(self, batch: Sequence[Message], *, now: datetime) -> Sequence[Outcome]:
        """Send the messages and return the outcome of each."""
        ...

    async def aclose(self) -> None:
        """Close every connection."""
        ...


@runtime_checkable
class ManyHosts(Protocol):
    """A provider whose targets are on many hosts, each with a circuit breaker of its own."""

    @property
    def concurrency_per_host(self) -> int:
        """How many messages may be in flight at once to one host."""
        ...

    def host_of(self, target: str) -> str:
        """Return the host of a target; empty if it cannot be parsed."""
        ...


@runtime_checkable
class SendsEach(Protocol):
    """A provider that sends a request for each message of a batch, and is answered one by one."""

    def send_each(
        self, batch: Sequence[Message], *, now: datetime
    ) -> AsyncGenerator[Sequence[tuple[int, Outcome]], None]:
        """Send the messages; yield the outcomes that came together, each with its place in the batch."""
        ...


@runtime_checkable
class GivesReceipts(Protocol):
    """A provider that reports later what became of the messages it accepted."""

    receipts_after: ClassVar[timedelta]
    receipts_kept: ClassVar[timedelta]
    receipts_batch: ClassVar[int]

    async def receipts(
        self, message_ids: Sequence[str], *, now: datetime
    ) -> Sequence[ReceiptOutcome] | Outcome:
        """Fetch the receipts of messages: one each, in order, or an outcome if none can be fetched."""
        ...


@runtime_checkable
class EncodesEvents(Protocol):
    """A provider that encodes the events of types by the tables of a schema."""

    def event_fault(self, table: str, fields: tuple[str, ...]) -> str | None:
        """Return why no payload can be encoded by a table and these fields; None if some can."""
        ...
