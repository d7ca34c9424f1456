"""What became of a notification, told so that a person understands it."""

from collections import defaultdict
from datetime import datetime
from uuid import UUID

import msgspec

from tocsin.domain.decide import Step
from tocsin.domain.delivery.hints import hint
from tocsin.domain.delivery.states import State
from tocsin.domain.people.recipient import recipient_of, route_id
from tocsin.store import notifications
from tocsin.store.deliveries import settle as deliveries
from tocsin.store.deliveries.settle import AttemptRow, DeliveryRow
from tocsin.store.pool import Connection

MOST_DELIVERIES = 1_000


class ShownAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """A failed attempt: when, and what it came to."""

    at: datetime
    outcome: str
    code: str
    detail: str


class ShownDelivery(msgspec.Struct, frozen=True, kw_only=True):
    """A delivery, the reason it stands where it stands, and what can be done about it."""

    delivery_id: UUID
    route_id: str
    channel: str
    recipient: str
    device_id: UUID | None
    state: State
    reason: str | None
    held_by: str | None
    due_at: datetime | None
    created_at: datetime
    settled_at: datetime | None
    attempt_count: int
    attempts: list[ShownAttempt]
    decisions: list[Step]
    provider: str | None
    provider_message_id: str | None
    last_error_code: str | None
    last_error: str | None
    hint: str | None


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """A notification with its deliveries; `truncated` tells that it has more than are shown."""

    notification_id: UUID
    producer: str
    idempotency_key: str
    type: str
    version: int
    audience: msgspec.Raw
    payload: msgspec.Raw
    collapse_key: str | None
    request_id: str | None
    trace_id: str | None
    occurred_at: datetime | None
    send_at: datetime | None
    send_at_local: datetime | None
    expires_at: datetime | None
    accepted_at: datetime
    cancelled_at: datetime | None
    deliveries: list[ShownDelivery]
    truncated: bool


async def show(connection: Connection, notification_id: UUID) -> Shown | None:
    """Read a notification with its deliveries and their failed attempts."""
    notification = await notifications.get(connection, notification_id)
    if notification is None:
        return None
    rows = await deliveries.of_notification(connection, notification_id, MOST_DELIVERIES + 1)
    shown = rows[:MOST_DELIVERIES]
    attempts: defaultdict[UUID, list[AttemptRow]] = defaultdict(list)
    for attempt in await deliveries.attempts_of(connection, [row.id for row in shown]):
        attempts[attempt.delivery_id].append(attempt)
    fields = msgspec.structs.asdict(notification)
    return Shown(
        notification_id=fields.pop("id"),
        **fields,
        deliveries=[_delivery(row, attempts[row.id], notification.type) for row in shown],
        truncated=len(rows) > len(shown),
    )


def _delivery(row: DeliveryRow, attempts: list[AttemptRow], kind: str) -> ShownDelivery:
    recipient = recipient_of(row.user_id, row.address, kind)
    return ShownDelivery(
        delivery_id=row.id,
        route_id=route_id(row.channel, recipient),
        channel=row.channel,
        recipient=str(recipient),
        device_id=row.device_id,
        state=row.state,
        reason=row.reason,
        held_by=row.held_by,
        decisions=row.decisions,
        due_at=row.due_at,
        created_at=row.created_at,
        settled_at=row.settled_at,
        attempt_count=row.attempts,
        attempts=[
            ShownAttempt(at=attempt.at, outcome=attempt.outcome, code=attempt.code, detail=attempt.detail)
            for attempt in attempts
        ],
        provider=row.provider,
        provider_message_id=row.provider_message_id,
        last_error_code=row.last_error_code,
        last_error=row.last_error,
        hint=hint(row.last_error_code),
    )
