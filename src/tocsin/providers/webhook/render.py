"""A message as Standard Webhooks has it."""

from datetime import UTC, datetime, timedelta
from typing import Any

from tocsin.domain.delivery.message import Message
from tocsin.domain.delivery.outcome import Rejected
from tocsin.domain.ids import NotificationId
from tocsin.providers.rendering import encode_within, given

PAYLOAD_BYTES = 262_144

_MILLISECONDS_SHIFT = 80


def render(message: Message, now: datetime) -> bytes | Rejected:
    """Render the body of a request, the same for every attempt."""
    data: dict[str, Any] = {
        "notification_id": str(message.notification_id),
        "delivery_id": str(message.delivery_id),
        "type": message.type,
        "payload": message.payload,
    }
    data |= given(title=message.title or None, body=message.body or None, locale=message.locale or None)
    accepted = _accepted_at(message.notification_id, now)
    content = {"type": message.type, "timestamp": accepted, "data": data}
    return encode_within(content, PAYLOAD_BYTES, "a webhook")


def _accepted_at(notification_id: NotificationId, now: datetime) -> datetime:
    """Return when a notification was accepted, which its id says."""
    if notification_id.version != 7:  # noqa: PLR2004 - the version that begins with milliseconds of Unix time
        return now
    milliseconds = notification_id.int >> _MILLISECONDS_SHIFT
    return datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=milliseconds)
