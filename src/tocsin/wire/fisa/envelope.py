"""The envelope of fisa: what its outboxes hold, what travels on its topics, and the intent that it means."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta

from tocsin.domain.intent import LARGEST_AUDIENCE, Intent, Key, NumericUserId, TraceText, UserId
from tocsin.domain.people.organisations import OrgId

LONGEST_TITLE = 1_000
LONGEST_BODY = 10_000

# Postgres and XML, of which SNS and SQS are made, have no NUL.
EventType = Annotated[str, Meta(min_length=1, max_length=100, pattern=r"^[^\x00-\x1f\x7f]+\Z")]
Icon = Annotated[str, Meta(max_length=200, pattern=r"^[^\x00-\x1f\x7f]*\Z")]
Title = Annotated[str, Meta(max_length=LONGEST_TITLE, pattern=r"^[^\x00]*\Z")]
Body = Annotated[str, Meta(max_length=LONGEST_BODY, pattern=r"^[^\x00]*\Z")]
DeepLink = Annotated[str, Meta(max_length=2_048, pattern=r"^[^\x00-\x1f\x7f]*\Z")]
Severity: TypeAlias = Literal["info", "success", "warn", "error"]

Declared: TypeAlias = Callable[[str, dict[str, Any]], dict[str, Any]]
"""Takes the name of a type and a payload, and returns the fields that the type declares."""


class FisaEnvelope(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One event for some people, or for everybody if `recipients` is empty. Unknown fields are ignored.

    At least one of `title` and `body` is not empty. A time without a zone is UTC.
    """

    event_id: Key
    event_type: EventType
    org_id: OrgId | NumericUserId | None = None
    recipients: Annotated[list[UserId | NumericUserId], Meta(max_length=LARGEST_AUDIENCE)]
    title: Title | None = None
    body: Body | None = None
    icon: Icon | None = None
    severity: Severity | None = None
    deep_link: DeepLink | None = None
    extras: dict[str, Any] | None = None
    created_at: datetime | None = None
    correlation_id: TraceText | None = None

    def __post_init__(self) -> None:
        """Raise ValueError if there is nothing to show."""
        if not self.title and not self.body:
            raise ValueError("Object must have a `title` or a `body`")

    @property
    def users(self) -> list[str]:
        """The ids of the recipients, each once, in their order."""
        return list(dict.fromkeys(map(str, self.recipients)))


_decoder = msgspec.json.Decoder(FisaEnvelope)
_fields = msgspec.json.Decoder(dict[str, Any])
_SHOWN = ("org_id", "title", "body", "icon", "severity", "deep_link")
_NOT_CARRIED = ("send_at", "send_at_local", "ttl_seconds", "collapse_key")


def decode_envelope(data: bytes | str) -> FisaEnvelope:
    """Decode an envelope, or raise msgspec.DecodeError; ValidationError, one of these, has the path."""
    return _decoder.decode(data)


def decode_row(payload: str, row_id: object, event_type: str | None) -> FisaEnvelope:
    """Decode the envelope of an outbox row, which may leave its id and its type to columns of the row."""
    fields = _fields.decode(payload)
    given = fields.get("event_id")
    if given is None or type(given) is int:
        fields["event_id"] = str(row_id if given is None else given)
    if not fields.get("event_type") and event_type:
        fields["event_type"] = event_type
    return msgspec.convert(fields, FisaEnvelope)


def encode_envelope(envelope: FisaEnvelope) -> bytes:
    """Encode an envelope as JSON that SNS and SQS take: these two characters are none of XML."""
    encoded = msgspec.json.encode(envelope)
    return encoded.replace(b"\xef\xbf\xbe", b"\\ufffe").replace(b"\xef\xbf\xbf", b"\\uffff")


def type_of(envelope: FisaEnvelope, types: Mapping[str, str]) -> str:
    """Return the type of an event: that of `types`, else the name of the event with `_` for `.`."""
    return types.get(envelope.event_type, envelope.event_type.replace(".", "_"))


def to_intent(
    envelope: FisaEnvelope,
    types: Mapping[str, str],
    declared: Declared,
    *,
    key: str | None = None,
    scoped: bool = False,
) -> Intent:
    """Build the intent of an envelope, or raise msgspec.ValidationError: an intent has recipients.

    Its type is that of `type_of`. Its idempotency key is `key`, else the id of the event. With `scoped`, it
    is one of the organisation of the envelope.
    """
    type_ = type_of(envelope, types)
    fields = {
        "type": type_,
        "audience": {"users": envelope.recipients},
        "payload": declared(type_, _payload(envelope)),
        "idempotency_key": key or envelope.event_id,
        "trace_id": envelope.correlation_id,
        "occurred_at": _as_utc(envelope.created_at),
        "org_id": str(envelope.org_id) if scoped and envelope.org_id is not None else None,
    }
    return msgspec.convert(fields, Intent)


def from_intent(
    intent: Intent, types: Mapping[str, str], texts: Mapping[str, str] | None = None
) -> FisaEnvelope:
    """Build the envelope of an intent for users, or raise msgspec.ValidationError.

    Fields of the payload that the envelope does not have are `extras`. `texts` are a `title` and a `body` for
    a payload that has neither.
    """
    if intent.audience.users is None:
        raise msgspec.ValidationError("An envelope is for users alone - at `$.audience`")
    for name in _NOT_CARRIED:
        if getattr(intent, name) is not None:
            raise msgspec.ValidationError(f"An envelope does not carry it - at `$.{name}`")
    payload = dict(intent.payload)
    shown = {name: payload.pop(name, None) for name in _SHOWN}
    if intent.org_id is not None:
        shown["org_id"] = intent.org_id
    if not shown["title"] and not shown["body"] and texts:
        shown |= texts
    whole = payload.pop("extras", None)
    extras = payload | (whole if isinstance(whole, dict) else {} if whole is None else {"extras": whole})
    events = {type_: event for event, type_ in types.items()}
    fields = shown | {
        "event_id": intent.idempotency_key,
        "event_type": events.get(intent.type, intent.type),
        "recipients": intent.audience.users,
        "extras": extras or None,
        "created_at": intent.occurred_at,
        "correlation_id": intent.trace_id,
    }
    return msgspec.convert(fields, FisaEnvelope)


def _payload(envelope: FisaEnvelope) -> dict[str, Any]:
    """Build the payload: the fields of the envelope, and its extras both as a whole and one by one."""
    extras = envelope.extras or {}
    fields = {**extras, "extras": extras or None, **{name: getattr(envelope, name) for name in _SHOWN}}
    return {name: value for name, value in fields.items() if value is not None}


def _as_utc(time: datetime | None) -> datetime | None:
    return time.replace(tzinfo=UTC) if time and time.tzinfo is None else time
