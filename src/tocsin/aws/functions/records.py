"""The records of an event: messages of a queue, or of a topic that invokes the function itself."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from tocsin.wire.sns_message import SnsMessage, queue_attributes, unwrap, unwrap_record


class UnknownEventError(ValueError):
    """The event is neither one of a queue nor one of a topic."""


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """One message; `message` is None if the record has none.

    `group_id` is that of a FIFO queue. Records with one `order` are delivered one after the other.
    """

    id: str
    order: str
    message: SnsMessage | None
    group_id: str | None = None


class Batch(msgspec.Struct, frozen=True):
    """The records of one invocation; of a queue, each that fails can be reported alone."""

    records: Sequence[Record]
    is_queue: bool


class _QueueRecord(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    message_id: str
    body: str
    attributes: dict[str, str] = {}
    message_attributes: dict[str, dict[str, Any]] = {}


class _QueueId(msgspec.Struct, frozen=True, rename="camel"):
    message_id: str


def read_event(event: object) -> Batch:
    """Read the records of an event, or raise UnknownEventError."""
    records = event.get("Records") if isinstance(event, Mapping) else None
    if not isinstance(records, list) or not all(isinstance(record, Mapping) for record in records):
        raise UnknownEventError("The event has no Records: invoke the function by a queue or a topic.")
    sources = {str(record.get("eventSource") or record.get("EventSource")) for record in records}
    if sources <= {"aws:sqs"}:
        return Batch([_of_queue(record) for record in records], is_queue=True)
    if sources == {"aws:sns"}:
        return Batch([_of_topic(record, place) for place, record in enumerate(records)], is_queue=False)
    raise UnknownEventError("The records are not from aws:sqs, nor from aws:sns.")


def _of_queue(given: Mapping[str, Any]) -> Record:
    try:
        record = msgspec.convert(given, _QueueRecord)
    except msgspec.ValidationError:
        try:
            message_id = msgspec.convert(given, _QueueId).message_id
        except msgspec.ValidationError:
            raise UnknownEventError("A record of a queue has no messageId.") from None
        return Record(id=message_id, order=message_id, message=None)
    group_id = record.attributes.get("MessageGroupId")
    return Record(
        id=record.message_id,
        order=record.message_id if group_id is None else f"group {group_id}",
        message=unwrap(record.body, queue_attributes(record.message_attributes)),
        group_id=group_id,
    )


def _of_topic(given: Mapping[str, Any], place: int) -> Record:
    try:
        message = unwrap_record(given.get("Sns", {}))
    except msgspec.ValidationError:
        return Record(id=str(place), order=str(place), message=None)
    return Record(id=message.message_id or str(place), order=str(place), message=message)
