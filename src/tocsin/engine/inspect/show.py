"""What became of a notification, told so that a person understands it."""

from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime
from uuid import UUID

import msgspec

from tocsin.domain.delivery.hints import hint
from tocsin.domain.delivery.states import WAITING, State
from tocsin.domain.people.recipient import recipient_of, route_id
from tocsin.domain.toggles import ProviderToggle, read_toggle
from tocsin.store import notifications, toggles
from tocsin.store.deliveries import settle as deliveries
from tocsin.store.deliveries.settle import AttemptRow, DeliveryRow
from tocsin.store.health.circuit_breakers import troubled
from tocsin.store.pool import Connection
from tocsin.wire.notifications import Delivery, FailedAttempt, Notification, wire_steps

MOST_DELIVERIES = 1_000


async def show(connection: Connection, notification_id: UUID, now: datetime) -> Notification | None:
    """Read a notification with its deliveries, their failed attempts and what they wait for."""
    notification = await notifications.get(connection, notification_id)
    if notification is None:
        return None
    rows = await deliveries.of_notification(connection, notification_id, MOST_DELIVERIES + 1)
    shown = rows[:MOST_DELIVERIES]
    attempts: defaultdict[UUID, list[AttemptRow]] = defaultdict(list)
    for attempt in await deliveries.attempts_of(connection, [row.id for row in shown]):
        attempts[attempt.delivery_id].append(attempt)
    blocked = await _blocked_lanes(connection)
    fields = msgspec.structs.asdict(notification)
    return Notification(
        notification_id=fields.pop("id"),
        audience=msgspec.json.decode(fields.pop("audience")),
        payload=msgspec.json.decode(fields.pop("payload")),
        **fields,
        deliveries=[
            _delivery(row, attempts[row.id], notification.type, _waiting_for(row, blocked, now))
            for row in shown
        ],
        truncated=len(rows) > len(shown),
    )


async def _blocked_lanes(connection: Connection) -> dict[str, str]:
    """Return why deliveries of a lane are not claimed at present, by lane."""
    circuits = await troubled(connection)
    blocked = {
        row.provider: f"circuit breaker of {row.provider} is {row.state.replace('_', '-')}: {row.code}"
        for row in circuits.values()
        if row.name == row.provider
    }
    for row in await toggles.list_all(connection):
        toggle = read_toggle(row.name)
        if not row.enabled and isinstance(toggle, ProviderToggle):
            blocked[toggle.provider] = f"{toggle} is switched off"
    return blocked


def _waiting_for(row: DeliveryRow, blocked: Mapping[str, str], now: datetime) -> str | None:
    """Return why a delivery is not sent yet: the rule that makes it wait, or the state of its provider."""
    if row.state not in WAITING or row.due_at is None:
        return None
    if row.due_at <= now:
        return blocked.get(row.lane)
    holds = [step for step in row.decisions if step.result == "hold" and step.until == row.due_at]
    return f"{holds[-1].detail}, until {row.due_at:%Y-%m-%d %H:%M:%S %Z}" if holds else None


def _delivery(
    row: DeliveryRow, attempts: list[AttemptRow], type_name: str, waiting_for: str | None
) -> Delivery:
    recipient = recipient_of(row.user_id, row.address, type_name)
    return Delivery(
        delivery_id=row.id,
        route_id=route_id(row.channel, recipient),
        channel=row.channel,
        recipient=str(recipient),
        device_id=row.device_id,
        state=row.state,
        reason=row.reason,
        held_by=row.held_by,
        waiting_for=waiting_for,
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
        hint=hint(row.last_error_code, State(row.state)),
    )
