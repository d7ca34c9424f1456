"""What Tocsin answers, as types. Fields that a newer server adds are passed over."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, ClassVar, Literal, TypeAlias
from uuid import UUID

import msgspec

from tocsin.client.intents import Intent
from tocsin.domain.faults import Fault


class Accepted(msgspec.Struct, frozen=True, kw_only=True, tag_field="status", tag="accepted"):
    """It is stored and will be kept."""

    status: ClassVar[Literal["accepted"]] = "accepted"

    notification_id: UUID
    idempotency_key: str = ""


class Duplicate(msgspec.Struct, frozen=True, kw_only=True, tag_field="status", tag="duplicate"):
    """The same key and content came before; this is what it became then."""

    status: ClassVar[Literal["duplicate"]] = "duplicate"

    notification_id: UUID
    idempotency_key: str = ""


class Conflict(msgspec.Struct, frozen=True, kw_only=True, tag_field="status", tag="conflict"):
    """The key belongs to other content, which became this notification."""

    status: ClassVar[Literal["conflict"]] = "conflict"

    notification_id: UUID
    idempotency_key: str = ""

    @property
    def why(self) -> str:
        """Say what is wrong."""
        return f"the key belongs to other content, notification {self.notification_id}"


class Invalid(msgspec.Struct, frozen=True, kw_only=True, tag_field="status", tag="invalid"):
    """It cannot be accepted as it is; every fault is named."""

    status: ClassVar[Literal["invalid"]] = "invalid"

    errors: list[Fault]
    idempotency_key: str = ""

    @property
    def why(self) -> str:
        """Say what is wrong."""
        return "; ".join(map(str, self.errors))


Taken: TypeAlias = Accepted | Duplicate
Answer: TypeAlias = Accepted | Duplicate | Conflict | Invalid


class Refusal(msgspec.Struct, frozen=True):
    """An intent that was queued and will never be accepted as it is."""

    intent: Intent
    answer: Conflict | Invalid


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One rule, asked once, and what it said."""

    rule: str
    result: str
    detail: str
    at: datetime
    until: datetime | None = None


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """A failed attempt: when, and what it came to."""

    at: datetime
    outcome: str
    code: str
    detail: str


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """A delivery, the reason it stands where it stands, and what can be done about it."""

    delivery_id: UUID
    route_id: str
    channel: str
    recipient: str
    device_id: UUID | None
    state: str
    reason: str | None
    held_by: str | None
    due_at: datetime | None
    created_at: datetime
    settled_at: datetime | None
    attempt_count: int
    attempts: list[Attempt]
    decisions: list[Step]
    provider: str | None
    provider_message_id: str | None
    last_error_code: str | None
    last_error: str | None
    hint: str | None


class Notification(msgspec.Struct, frozen=True, kw_only=True):
    """A notification with its deliveries; `truncated` tells that it has more than are shown."""

    notification_id: UUID
    producer: str
    idempotency_key: str
    type: str
    version: int
    audience: dict[str, Any]
    payload: dict[str, Any]
    collapse_key: str | None
    request_id: str | None
    trace_id: str | None
    occurred_at: datetime | None
    send_at: datetime | None
    send_at_local: datetime | None
    expires_at: datetime | None
    accepted_at: datetime
    cancelled_at: datetime | None
    deliveries: list[Delivery]
    truncated: bool


class ExplainedDevice(msgspec.Struct, frozen=True, kw_only=True):
    """A device, an endpoint, a mailbox or a topic it would go to."""

    device_id: UUID | None
    provider: str
    platform: str


class ExplainedRoute(msgspec.Struct, frozen=True, kw_only=True):
    """What would become of one recipient and channel: `outcome` is sent, held, skipped or expired."""

    route_id: str
    recipient: str
    channel: str
    outcome: str
    at: datetime | None = None
    reason: str | None = None
    held_by: str | None = None
    steps: list[Step]
    devices: list[ExplainedDevice] = []


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """What would become of an intent at a moment."""

    type: str
    version: int
    now: datetime
    routes: list[ExplainedRoute]


class Cancelled(msgspec.Struct, frozen=True, kw_only=True):
    """How many deliveries were taken back; what had left, or is leaving, is not among them."""

    notification_id: UUID
    cancelled: int


class Rescheduled(msgspec.Struct, frozen=True, kw_only=True):
    """How many deliveries were moved; what was tried before stays where it is."""

    notification_id: UUID
    rescheduled: int


class User(msgspec.Struct, frozen=True, kw_only=True):
    """A person in the directory."""

    user_id: str
    email: str | None
    locale: str | None
    timezone: str | None
    gmt_offset_seconds: int | None
    allowed_window: str | None
    updated_at: datetime


class Device(msgspec.Struct, frozen=True, kw_only=True):
    """A device as its owner sees it; of the token only a short hash."""

    device_id: UUID
    user_id: str
    provider: str
    platform: str
    token_hash: str
    token_kind: str
    locale: str | None
    timezone: str | None
    app_version: str | None
    device_model: str | None
    push_enabled: bool
    notification_count: int
    last_sent_at: datetime | None
    registered_at: datetime
    last_seen_at: datetime
    stale: bool
    retired_at: datetime | None
    retired_reason: str | None


# Category to channel to yes or no; what is not among them is yes.
Preferences: TypeAlias = dict[str, dict[str, bool]]
# None takes a choice, or all those of a category, back to yes.
PreferenceChanges: TypeAlias = Mapping[str, Mapping[str, bool | None] | None]
