"""What became of a notification, told so that a person understands it."""

from collections import defaultdict
from uuid import UUID

import msgspec

from tocsin.domain.delivery.hints import hint
from tocsin.domain.people.recipient import recipient_of, route_id
from tocsin.store import notifications
from tocsin.store.deliveries import settle as deliveries
from tocsin.store.deliveries.settle import AttemptRow, DeliveryRow
from tocsin.store.pool import Connection
from tocsin.wire.notifications import Delivery, FailedAttempt, Notification, wire_steps

MOST_DELIVERIES = 1_000


async def show(connection: Connection, notification_id: UUID) -> Notification | None:
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
    return Notification(
        notification_id=fields.pop("id"),
        audience=msgspec.json.decode(fields.pop("audience")),
        payload=msgspec.json.decode(fields.pop("payload")),
        **fields,
        deliveries=[_delivery(row, attempts[row.id], notification.type) for row in shown],
        truncated=len(rows) > len(shown),
    )


def _delivery(row: DeliveryRow, attempts: list[AttemptRow], kind: str) -> Delivery:
    recipient = recipient_of(row.user_id, row.address, kind)
    return Delivery(
        delivery_id=row.id,
        route_id=route_id(row.channel, recipient),
        channel=row.channel,
        recipient=str(recipient),
        device_id=row.device_id,
        state=row.state,
        reason=row.reason,
        held_by=row.held_by,
        decisions=wire_steps(row.decisions),
        due_at=row.due_at,
        created_at=row.created_at,
        settled_at=row.settled_at,
        attempt_count=row.attempts,
        attempts=[
            FailedAttempt(at=attempt.at, outcome=attempt.outcome, code=attempt.code, detail=attempt.detail)
            for attempt in attempts
        ],
        provider=row.provider,
        provider_message_id=row.provider_message_id,
        last_error_code=row.last_error_code,
        last_error=row.last_error,
        hint=hint(row.last_error_code),
    )
