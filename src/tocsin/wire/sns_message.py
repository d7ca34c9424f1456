"""A message of an SNS topic as a queue or a function receives it: in SNS's JSON wrapper, or raw.

Nothing else parses the wrapper. Which of the two a queue gets is a setting of its subscription
(`RawMessageDelivery`), so whoever reads a queue takes both.
"""

from base64 import b64encode
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Literal

import msgspec


class SnsMessage(msgspec.Struct, frozen=True, kw_only=True):
    """What a publisher handed to a topic, or sent to the queue itself.

    A raw message has no id, topic or time of SNS. Attributes are text; binary ones are base64.
    """

    message: str
    attributes: Mapping[str, str] = {}
    message_id: str | None = None
    topic_arn: str | None = None
    published_at: datetime | None = None
    subject: str | None = None


class _Attribute(msgspec.Struct, frozen=True):
    value: str = msgspec.field(name="Value")


class _Wrapper(msgspec.Struct, frozen=True, kw_only=True):
    type: Literal["Notification"] = msgspec.field(name="Type")
    message_id: str = msgspec.field(name="MessageId")
    topic_arn: str = msgspec.field(name="TopicArn")
    message: str = msgspec.field(name="Message")
    timestamp: str | None = msgspec.field(name="Timestamp", default=None)
    subject: str | None = msgspec.field(name="Subject", default=None)
    attributes: dict[str, _Attribute] = msgspec.field(name="MessageAttributes", default_factory=dict)


_wrapper = msgspec.json.Decoder(_Wrapper)


def unwrap(body: str, attributes: Mapping[str, str] | None = None) -> SnsMessage:
    """Return the message in the body of a queue's message; a body that is no wrapper is raw.

    `attributes` are those of the queue's message (see `queue_attributes`): a raw message has its own there.
    """
    try:
        wrapper = _wrapper.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        # Not an error: a raw message holds whatever its publisher wrote.
        return SnsMessage(message=body, attributes=attributes or {})
    return _message(wrapper)


def unwrap_record(record: Mapping[str, object]) -> SnsMessage:
    """Return the message in the `Sns` part of a function's event, or raise msgspec.ValidationError."""
    return _message(msgspec.convert(record, _Wrapper))


def queue_attributes(attributes: Mapping[str, Mapping[str, object]]) -> dict[str, str]:
    """Return the attributes of a queue's message, from SQS's answer or a function's event, as text."""
    found: dict[str, str] = {}
    for name, attribute in attributes.items():
        for key in ("StringValue", "stringValue", "BinaryValue", "binaryValue"):
            match attribute.get(key):
                case str(value):
                    found.setdefault(name, value)
                case bytes(value):
                    found.setdefault(name, b64encode(value).decode())
    return found


def _message(wrapper: _Wrapper) -> SnsMessage:
    return SnsMessage(
        message=wrapper.message,
        attributes={name: one.value for name, one in wrapper.attributes.items()},
        message_id=wrapper.message_id,
        topic_arn=wrapper.topic_arn,
        published_at=_time(wrapper.timestamp),
        subject=wrapper.subject,
    )


def _time(text: str | None) -> datetime | None:
    """Return the time that SNS wrote, or None where a time is missing or is none."""
    try:
        time = datetime.fromisoformat(text) if text else None
    except ValueError:
        return None
    return time.replace(tzinfo=UTC) if time and time.tzinfo is None else time
