"""What Tocsin answers, as types. Fields that a newer server adds are passed over."""

from collections.abc import Mapping
from datetime import datetime
from typing import ClassVar, Literal, TypeAlias
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
