"""What became of a notification, told so that a person understands it."""

import re
from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

import msgspec

from tocsin.domain.delivery.hints import hint
from tocsin.domain.delivery.states import STATUS_OF, State
from tocsin.domain.errors import TocsinError
from tocsin.domain.ids import created_at
from tocsin.domain.people.recipient import recipient_of, route_id
from tocsin.engine.inspect.waiting import Due, read_due
from tocsin.store import notifications, receipts
from tocsin.store.broadcasts import broadcasts
from tocsin.store.broadcasts.broadcasts import BroadcastRow
from tocsin.store.deliveries import read as deliveries
from tocsin.store.deliveries.read import AttemptRow, DeliveryRow
from tocsin.store.pool import Connection
from tocsin.wire.notifications import (
    Broadcast,
    Delivery,
    DeliveryReceipt,
    FailedAttempt,
    Notification,
    wire_steps,
)

MOST_DELIVERIES = 1_000
MOST_ATTEMPTS = 50
"""How many failed attempts of a delivery are shown, the newest."""
MOST_AMBIGUOUS = 10

_EXTERNAL_ID = re.compile(r"[!-~]{1,200}")


class AmbiguousIdError(TocsinError):
    """Several streams had an entry with this id."""

    def __init__(self, external_id: str, ids: Sequence[UUID]) -> None:
        listed = ", ".join(map(str, ids))
        super().__init__(
            f"The entries {external_id} of several streams are notifications; show one: {listed}."
        )


async def identify(
    connection: Connection, text: str, producer: str | None = None, org_id: str | None = None
) -> UUID | None:
    """Return the notification id that a text is, or the one with this external id; None if there is none.

    With a `producer` or an `org_id`, only their notifications are found by an external id.
    """
    try:
        given = UUID(text)
    except ValueError:
        given = None
    if given is not None and created_at(given) is not None:
        return given
    if _EXTERNAL_ID.fullmatch(text) is None:
        return given
    # The id of a message of SNS or SQS is a UUID too, but not one that Tocsin makes.
    found = await notifications.of_external_id(connection, text, producer, org_id, MOST_AMBIGUOUS)
    if len(found) > 1:
        raise AmbiguousIdError(text, found)
    return found[0] if found else given


async def show(
    connection: Connection, notification_id: UUID, now: datetime, default_zone: str | None = None
) -> Notification | None:
    """Read a notification with its deliveries, their failed attempts, receipts and what they wait for.

    `default_zone` is for people without a time zone.
    """
    notification = await notifications.get(connection, notification_id)
    if notification is None:
        return None
    rows = await deliveries.of_notification(connection, notification_id, MOST_DELIVERIES + 1)
    shown = rows[:MOST_DELIVERIES]
    attempts: defaultdict[UUID, list[AttemptRow]] = defaultdict(list)
    for attempt in await deliveries.attempts_of(connection, [row.id for row in shown], MOST_ATTEMPTS + 1):
        attempts[attempt.delivery_id].append(attempt)
    reported: defaultdict[UUID, list[DeliveryReceipt]] = defaultdict(list)
    # Whatever a device reports makes it `delivered`.
    if delivered := [row.id for row in shown if row.state is State.DELIVERED]:
        for each in await receipts.of_deliveries(connection, delivered):
            reported[each.delivery_id].append(DeliveryReceipt(event=each.event, at=each.at))
    wall = notification.send_at_local
    wall_times = {} if wall is None else {notification_id: wall}
    due = await read_due(connection, shown, wall_times, now, default_zone)
    fields = msgspec.structs.asdict(notification)
    return Notification(
        notification_id=fields.pop("id"),
        audience=msgspec.json.decode(fields.pop("audience")),
        payload=msgspec.json.decode(fields.pop("payload")),
        **fields,
        deliveries=[
            _delivery(row, attempts[row.id], reported[row.id], notification.type, due[row.id])
            for row in shown
        ],
        truncated=len(rows) > len(shown),
        broadcast=_broadcast(await broadcasts.get(connection, notification_id)),
    )


def _broadcast(row: BroadcastRow | None) -> Broadcast | None:
    if row is None:
        return None
    return Broadcast(
        state=row.state,
        expanded=row.expanded,
        total=row.total,
        next_at=row.next_at if row.state == "expanding" else None,
        waiting_for=row.waiting_for,
        finished_at=row.finished_at,
    )


def _delivery(
    row: DeliveryRow,
    attempts: list[AttemptRow],
    receipts: list[DeliveryReceipt],
    type_name: str,
    due: Due,
) -> Delivery:
    recipient = recipient_of(row.user_id, row.address, type_name)
    return Delivery(
        delivery_id=row.id,
        route_id=route_id(row.channel, recipient),
        channel=row.channel,
        recipient=str(recipient),
        device_id=row.device_id,
        state=row.state,
        status=STATUS_OF.get(State(row.state)),
        reason=row.reason,
        held_by=row.held_by,
        waiting_for=due.reason,
        decisions=wire_steps(row.decisions),
        due_at=due.at,
        digest_id=row.digest_id,
        created_at=row.created_at,
        settled_at=row.settled_at,
        attempt_count=row.attempts,
        attempts=[
            FailedAttempt(at=attempt.at, outcome=attempt.outcome, code=attempt.code, detail=attempt.detail)
            for attempt in attempts[-MOST_ATTEMPTS:]
        ],
        attempts_truncated=len(attempts) > MOST_ATTEMPTS,
        receipts=receipts,
        provider=row.provider,
        provider_message_id=row.provider_message_id,
        last_error_code=row.last_error_code,
        last_error=row.last_error,
        hint=hint(row.last_error_code, State(row.state)),
    )
