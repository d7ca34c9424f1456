"""Notifications as the API shows them: with their deliveries, or as they would be decided."""

from collections.abc import Iterable
from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

import msgspec

from tocsin.domain.intent import Key, Moment
from tocsin.wire.values.open_values import (
    BROADCAST_STATES,
    EXPLAINED_OUTCOMES,
    RECEIPT_EVENTS,
    RULE_RESULTS,
    RULES,
    STATES,
    STATUSES,
)


class Step(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The result of one rule for a delivery; `count` is how many times in a row, the last of them `at`."""

    rule: Annotated[str, RULES]
    result: Annotated[str, RULE_RESULTS]
    detail: str
    at: datetime
    until: datetime | None = None
    count: int = 1


class FailedAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """A failed attempt: its time, outcome and error code."""

    at: datetime
    outcome: str
    code: str
    detail: str


class DeliveryReceipt(msgspec.Struct, frozen=True, kw_only=True):
    """What the device reported of a delivery, and when it did so first."""

    event: Annotated[str, RECEIPT_EVENTS]
    at: datetime


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """A delivery with its state, the reason for it, and a hint what to do about an error.

    `waiting_for` is why it is not sent yet: quiet hours or another rule until a time, the digest that it is a
    member of and what that waits for, or a provider that is down or switched off. `due_at` is when it is
    decided next: for a member of a digest when that is due, for a `send_at_local` when the person's clock
    shows it. `digest_id` is the digest that it is or was a member of. `status` is the state in the words of
    producers that hand in intents by a stream; null if they have none for it. `attempts` are the newest that
    failed; `attempts_truncated` means there were more. `receipts` are what the device reported of it, in
    order; a provider's own receipt leads to the state `delivered` without one.
    """

    delivery_id: UUID
    route_id: str
    channel: str
    recipient: str
    device_id: UUID | None
    state: Annotated[str, STATES]
    status: Annotated[str, STATUSES] | None = None
    reason: str | None
    held_by: str | None
    waiting_for: str | None
    due_at: datetime | None
    created_at: datetime
    settled_at: datetime | None
    attempt_count: int
    attempts: list[FailedAttempt]
    decisions: list[Step]
    provider: str | None
    provider_message_id: str | None
    last_error_code: str | None
    last_error: str | None
    hint: str | None
    attempts_truncated: bool = False
    digest_id: UUID | None = None
    receipts: list[DeliveryReceipt] = []


class NotificationSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A notification in a list; `external_id` is the id of the stream entry that it came from.

    `org_id` is the organisation that its recipients belong to, if it was handed in for one.
    """

    notification_id: UUID
    external_id: str | None = None
    org_id: str | None = None
    producer: str
    idempotency_key: str
    type: str
    version: int
    request_id: str | None
    trace_id: str | None
    send_at: datetime | None
    send_at_local: datetime | None = None
    expires_at: datetime | None
    accepted_at: datetime


class Broadcast(msgspec.Struct, frozen=True, kw_only=True):
    """How far a notification to many people is: `expanded` of `total` have their deliveries.

    It is `expanding`, `finished`, `cancelled`, or `expired`, which means that its time to live ended before.
    `total` is what was counted when it began, null until then; people may have come or gone since.
    `waiting_for` is why no more deliveries are made at present, `next_at` when it begins or goes on.
    """

    state: Annotated[str, BROADCAST_STATES]
    expanded: int
    total: int | None = None
    next_at: datetime | None = None
    waiting_for: str | None = None
    finished_at: datetime | None = None


class Notification(NotificationSummary, frozen=True, kw_only=True):
    """A notification with its deliveries; `truncated` if it has more than are listed.

    Since `pruned_at` its content is gone: only its idempotency key is still kept. `reference` is the
    delivery_id of a mail command; `locale` is the language for recipients of whom no other is known. One to
    many people has a `broadcast`.
    """

    reference: str | None = None
    locale: str | None = None
    audience: dict[str, Any]
    payload: dict[str, Any]
    collapse_key: str | None
    occurred_at: datetime | None
    cancelled_at: datetime | None
    pruned_at: datetime | None = None
    deliveries: list[Delivery]
    truncated: bool
    broadcast: Broadcast | None = None


class CancelByKey(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The idempotency key of the notification to cancel."""

    idempotency_key: Key


class Cancelled(msgspec.Struct, frozen=True):
    """How many deliveries were cancelled, without those already sent or being sent."""

    notification_id: UUID
    cancelled: int


class Reschedule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The new time of a notification."""

    send_at: Annotated[Moment, msgspec.Meta(description="An instant, with its offset.")]


class Rescheduled(msgspec.Struct, frozen=True):
    """How many deliveries were rescheduled, without those already attempted."""

    notification_id: UUID
    rescheduled: int


class ExplainedDevice(msgspec.Struct, frozen=True):
    """A device, endpoint, mailbox or topic that would receive it; only the first two have an id."""

    device_id: UUID | None
    provider: str
    platform: str


class ExplainedRoute(msgspec.Struct, frozen=True, kw_only=True):
    """What would happen for one recipient and channel: sent at a time, held, or never sent."""

    route_id: str
    recipient: str
    channel: str
    outcome: Annotated[str, EXPLAINED_OUTCOMES]
    at: datetime | None = None
    reason: str | None = None
    held_by: str | None = None
    steps: list[Step]
    devices: list[ExplainedDevice] = []


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """What would happen to an intent if it were accepted at `now`.

    With an `audience_size` it would be a broadcast to that many people; the routes are those of the first.
    """

    type: str
    version: int
    now: datetime
    routes: list[ExplainedRoute]
    audience_size: int | None = None


def wire_steps(steps: Iterable[msgspec.Struct]) -> list[Step]:
    """Convert the steps of a domain decision."""
    return msgspec.convert(list(steps), list[Step], from_attributes=True)
