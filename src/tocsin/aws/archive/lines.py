"""A message as a line of the archive, and the hour that it belongs to."""

from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import msgspec

from tocsin.ingress.sqs.queue import Received
from tocsin.wire.sns_message import SnsMessage, unwrap
from tocsin.wire.values.nesting import is_too_deep

OLDEST = timedelta(days=30)
"""SNS delivers for 23 days at most and SQS keeps a message for 14."""
NEWEST = timedelta(hours=1)
"""How far clocks may differ."""

_EPOCH = datetime.fromtimestamp(0, UTC)
_ID_LENGTH = 100

_object = msgspec.json.Decoder(dict[str, Any])
_encoder = msgspec.json.Encoder()


class ArchivedMessage(msgspec.Struct, frozen=True, kw_only=True):
    """One line: the envelope, and what SNS and SQS say about the message.

    `message_id` is that of SNS, or of SQS for a raw message; a message that SQS handed out twice is there
    twice, with the same ids. `envelope` is a message that is a JSON object, as it was published; any other is
    `text`. `time` is the one by which it was filed.
    """

    message_id: str
    sqs_message_id: str
    time: datetime
    published_at: datetime | None
    sent_at: datetime | None
    topic_arn: str | None
    subject: str | None
    group_id: str | None
    deduplication_id: str | None
    sequence_number: str | None
    attributes: dict[str, str]
    envelope: msgspec.Raw | None
    text: str | None


class Line(NamedTuple):
    """An encoded line, with the folder of its hour."""

    partition: str
    encoded: bytes


def archive_line(message: Received, now: datetime) -> Line:
    """Encode a message; whatever it holds, there is a line for it."""
    published = unwrap(message.body, message.attributes)
    sent_at = _moment(message.sent_ms)
    time = filing_time(published.published_at, sent_at, now)
    try:
        encoded = _encode(message, published, sent_at, time)
    except UnicodeEncodeError:
        # Half a surrogate pair is no text.
        body = message.body.encode(errors="backslashreplace").decode()
        encoded = _encode(message, SnsMessage(message=body), sent_at, time, is_text=True)
    return Line(partition_of(time), encoded)


def filing_time(published_at: datetime | None, sent_at: datetime | None, now: datetime) -> datetime:
    """Return the time by which a message is filed: when it was published.

    Without that, or if that is more than an hour after the message was sent to the queue, or 30 days before,
    it is when it was sent there; without that, or if it is as far from now, it is now.
    """
    reference = sent_at if sent_at is not None and _is_near(sent_at, now) else now
    is_good = published_at is not None and _is_near(published_at, reference)
    return published_at.astimezone(UTC) if published_at is not None and is_good else reference


def partition_of(time: datetime) -> str:
    """Return the folder of an hour."""
    return f"day={time:%Y-%m-%d}/hour={time:%H}"


def _encode(
    message: Received,
    published: SnsMessage,
    sent_at: datetime | None,
    time: datetime,
    *,
    is_text: bool = False,
) -> bytes:
    envelope = None if is_text else _envelope(published.message)
    system = message.system
    own = published.message_id
    line = ArchivedMessage(
        message_id=own if own and len(own) <= _ID_LENGTH else message.message_id,
        sqs_message_id=message.message_id,
        time=time,
        published_at=published.published_at,
        sent_at=sent_at,
        topic_arn=published.topic_arn,
        subject=published.subject,
        group_id=system.get("MessageGroupId"),
        deduplication_id=system.get("MessageDeduplicationId"),
        sequence_number=system.get("SequenceNumber"),
        attributes=dict(published.attributes),
        envelope=envelope,
        text=published.message if envelope is None else None,
    )
    return _encoder.encode(line) + b"\n"


def _envelope(text: str) -> msgspec.Raw | None:
    """Return a JSON object as it was written, on one line; None for anything else, or if it is too deep."""
    try:
        decoded = _object.decode(text)
    except (msgspec.MsgspecError, RecursionError):
        return None
    if is_too_deep(text, decoded):
        return None
    raw = text.encode()
    if b"\n" in raw or b"\r" in raw:
        # Within JSON these two stand between values only.
        raw = raw.replace(b"\n", b" ").replace(b"\r", b" ")
    return msgspec.Raw(raw)


def _is_near(time: datetime, reference: datetime) -> bool:
    return -OLDEST <= time - reference <= NEWEST


def _moment(milliseconds: int | None) -> datetime | None:
    try:
        return None if milliseconds is None else _EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:
        return None
