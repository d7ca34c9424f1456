"""The envelope of a record and the people that the record is for."""

import msgspec

from tocsin.aws.functions.logs import FunctionLog, add_log_fields
from tocsin.aws.functions.records import Record
from tocsin.aws.functions.results import NeverDeliveredError
from tocsin.wire.fisa.envelope import FisaEnvelope, decode_envelope
from tocsin.wire.values.nesting import is_too_deep

RECIPIENT = "recipient"
"""The message attribute with the one person that a message is for."""

_GROUP_OF_USER = "user-"
_log = FunctionLog(__name__)


def open_record(record: Record) -> tuple[FisaEnvelope, list[str]]:
    """Return the envelope of a record and the people that it is for, or raise NeverDeliveredError.

    The fields by which an event is found in the logs of all services are added to the lines that follow.
    """
    envelope = _decode(record)
    add_log_fields(
        event_id=envelope.event_id,
        event_type=envelope.event_type,
        correlation_id=envelope.correlation_id or None,
    )
    users = recipients_of(envelope, record)
    if not users:
        # For everybody; what it is to be delivered to has no such address.
        _log.warning("envelope without recipients skipped")
    return envelope, users


def recipients_of(envelope: FisaEnvelope, record: Record) -> list[str]:
    """List the people that a record is for.

    A publisher may send the whole envelope once for each recipient: the attribute `recipient`, or the group
    `user-<id>`, then has the one that this record is for.
    """
    users = envelope.users
    named = record.message.attributes.get(RECIPIENT) if record.message else None
    if named is None and record.group_id and record.group_id.startswith(_GROUP_OF_USER):
        named = record.group_id.removeprefix(_GROUP_OF_USER)
    return [named] if named in users else users


def _decode(record: Record) -> FisaEnvelope:
    """Decode the envelope of a record, or raise NeverDeliveredError."""
    if record.message is None:
        raise NeverDeliveredError("no_message")
    text = record.message.message
    try:
        envelope = decode_envelope(text)
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        # The message of a decoder has the path of the fault, not the value.
        detail = str(error) if isinstance(error, msgspec.ValidationError) else type(error).__name__
        raise NeverDeliveredError("no_envelope", detail) from None
    if is_too_deep(text, {"extras": envelope.extras}):
        raise NeverDeliveredError("too_deep")
    return envelope
