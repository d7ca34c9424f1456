"""The answers to intents, and intents that cannot be decoded."""

from collections.abc import Sequence
from datetime import UTC, timedelta

import msgspec

from tocsin.domain.delivery.held_by import DIGEST
from tocsin.domain.faults import Fault
from tocsin.domain.intent import Intent
from tocsin.store.notifications import NewNotification
from tocsin.wire.answers import Accepted, Answer, Conflict, Duplicate, Invalid

__all__ = [
    "Accepted",
    "Answer",
    "Conflict",
    "Duplicate",
    "Invalid",
    "Unreadable",
    "accepted_answer",
    "written_intent",
]

INVALID = "invalid_intent"
FURTHEST_BEHIND = timedelta(hours=12)
"""How far the zone in which a wall time comes last is behind UTC."""

_encoder = msgspec.json.Encoder()


class Unreadable(msgspec.Struct, frozen=True, kw_only=True):
    """An intent that cannot be decoded or accepted; it is recorded as refused, with a code."""

    code: str = INVALID
    faults: Sequence[Fault]
    content: str
    type: str | None = None
    idempotency_key: str | None = None
    org_id: str | None = None


def written_intent(intent: Intent) -> str:
    """Return an intent as JSON, as it is kept if it is refused."""
    try:
        return _encoder.encode(intent).decode()
    except UnicodeEncodeError:
        return repr(msgspec.to_builtins(intent)).encode(errors="replace").decode()


def accepted_answer(notification: NewNotification, repeated_recipients: int) -> Accepted:
    """Build the answer for a stored notification, with what it waits for as far as planning decided it."""
    answer = Accepted(notification.id, repeated_recipients=repeated_recipients)
    planned = None
    for delivery in notification.deliveries:
        if delivery.reason is None:
            planned = delivery
            break
    if planned is None and notification.broadcast is None:
        return answer
    now, send_at, wall = notification.accepted_at, notification.send_at, notification.send_at_local
    if wall is not None and wall.replace(tzinfo=UTC) + FURTHEST_BEHIND > now:
        return msgspec.structs.replace(answer, waits_for="send_at_local")
    if send_at is not None and send_at > now:
        return msgspec.structs.replace(answer, waits_for="send_at", waits_until=send_at)
    if planned is not None and planned.held_by == DIGEST:
        return msgspec.structs.replace(answer, waits_for="digest", waits_until=planned.due_at)
    return answer
