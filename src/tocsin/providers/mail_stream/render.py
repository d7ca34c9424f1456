"""A mail as the mail service reads it from its stream: a command to send a template."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import msgspec

from tocsin.domain.delivery.message import HandOff, Message
from tocsin.providers.redis_streams.provider import EncodingError, trace_fields
from tocsin.wire.streams.mail_commands import MailPayload

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_encoder = msgspec.json.Encoder()


def render(message: Message, hand_off: HandOff, source: str) -> Mapping[bytes, bytes]:
    """Build the fields of an entry."""
    delivery_id = hand_off.event_id.encode()
    command = MailPayload(
        to=(message.target,), template_id=message.type, locale=hand_off.locale, variables=hand_off.payload
    )
    try:
        payload = _encoder.encode(command)
    except (TypeError, ValueError) as error:
        raise EncodingError(f"the payload cannot be written as JSON: {type(error).__name__}") from error
    return {
        b"delivery_id": delivery_id,
        b"source": source.encode(),
        b"payload_mode": b"template",
        b"idempotency_key": b"%b:%b" % (source.encode(), delivery_id),
        b"requested_at_ms": b"%d" % ((hand_off.accepted_at - _EPOCH) // _MILLISECOND),
        **trace_fields(hand_off),
        b"payload_json": payload,
    }
