"""A message as Standard Webhooks has it."""

from datetime import datetime
from typing import Any

from tocsin.domain.delivery.message import Message
from tocsin.domain.delivery.outcome import Rejected
from tocsin.domain.ids import created_at
from tocsin.providers.rendering import encode_within, given

PAYLOAD_BYTES = 262_144


def render(message: Message, now: datetime) -> bytes | Rejected:
    """Render the body of a request, the same for every attempt."""
    data: dict[str, Any] = {
        "notification_id": str(message.notification_id),
        "delivery_id": str(message.delivery_id),
        "type": message.type,
        "payload": message.payload,
    }
    data |= given(title=message.title or None, body=message.body or None, locale=message.locale or None)
    # The id of a notification says when it was accepted.
    accepted = created_at(message.notification_id) or now
    content = {"type": message.type, "timestamp": accepted, "data": data}
    return encode_within(content, PAYLOAD_BYTES, "a webhook")
