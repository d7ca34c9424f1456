"""The entries of a stream of intents, as producers append them."""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta

from tocsin.domain.faults import Fault
from tocsin.domain.intent import Intent, Key, TraceText, TypeName
from tocsin.wire.faults import validation_fault
from tocsin.wire.values.non_finite import non_finite_faults

DEFAULT_STREAM = "notification:intents"
LONGEST_PRODUCER = 100
LARGEST_ENTRY = 262_144
"""Bytes of all names and values of an entry."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LAST_MS = 253_402_300_799_999
"""The end of the year 9999."""
_FIELD_OF = {"type": "notification_type", "payload": "payload_json", "occurred_at": "occurred_at_ms"}
"""The fields of an entry behind those of an intent, where their names differ."""

Fields: TypeAlias = Mapping[str, str]
_object = msgspec.json.Decoder(dict[str, Any])
_user_ids = msgspec.json.Decoder(list[str])
_encoder = msgspec.json.Encoder()
# After an even number of backslashes, which are themselves escaped.
_ESCAPED_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")


class IntentEntry(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of an entry, each a text. Fields besides these are ignored."""

    notification_type: Annotated[TypeName, Meta(description="A type that the catalog declares.")]
    producer: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=LONGEST_PRODUCER,
            description="The service that appends the intent; idempotency keys are its own.",
        ),
    ]
    audience_kind: Annotated[
        Literal["user", "admin_email"],
        Meta(description="`user`: the listed users. `admin_email`: the administrators set for the type."),
    ]
    idempotency_key: Annotated[
        Key, Meta(description="A repeat with the same producer, key and content is a duplicate.")
    ]
    occurred_at_ms: Annotated[
        str, Meta(pattern=r"^[0-9]{1,15}\Z", description="Milliseconds since 1970, in digits.")
    ]
    payload_json: Annotated[
        str, Meta(min_length=1, description="A JSON object that fits the payload schema of the type.")
    ]
    recipient_user_ids_json: Annotated[
        str,
        Meta(
            description="A JSON array of user ids, each once, in any order. Required with `user`, forbidden "
            "with `admin_email`."
        ),
    ] = ""
    request_id: Annotated[
        TraceText, Meta(description="Forwarded; no part of what a duplicate is compared by.")
    ] = ""
    trace_id: Annotated[
        TraceText, Meta(description="Forwarded; no part of what a duplicate is compared by.")
    ] = ""


REQUIRED = tuple(field.name for field in msgspec.structs.fields(IntentEntry) if field.required)


class EntryFaultsError(Exception):
    """Everything that is wrong with an entry."""

    def __init__(self, *faults: Fault) -> None:
        super().__init__(faults)
        self.faults = faults


def write_fields(
    type_name: str,
    *,
    producer: str,
    users: Sequence[str] | None,
    payload: Mapping[str, Any],
    idempotency_key: str,
    occurred_at: datetime,
    request_id: str | None,
    trace_id: str | None,
) -> dict[str, str]:
    """Build the fields of an entry, for users or, without any, for the administrators of the type.

    Raise the faults of what cannot be written, or what no reader takes however it is read.
    """
    given = {
        "notification_type": type_name,
        "producer": producer,
        "audience_kind": "admin_email" if users is None else "user",
        "idempotency_key": idempotency_key,
        "occurred_at_ms": str((occurred_at - _EPOCH) // timedelta(milliseconds=1)),
        "payload_json": payload,
        "recipient_user_ids_json": users if users is None or isinstance(users, str) else list(users),
        "request_id": request_id or None,
        "trace_id": trace_id or None,
    }
    fields, faults = {}, []
    if isinstance(users, str):
        # A text is a sequence of texts, and its letters would be other people.
        message = "must be a list of user ids, not one text"
        faults.append(Fault(field="recipient_user_ids_json", code="invalid", message=message))
    for name, value in given.items():
        if value is None:
            continue
        try:
            encoded = value.encode() if isinstance(value, str) else _encoder.encode(value)
        except UnicodeEncodeError:
            faults.append(Fault(field=name, code="not_text", message="holds half of a surrogate pair"))
        except RecursionError:
            faults.append(Fault(field=name, code="too_deep", message="is nested too deep"))
        else:
            fields[name] = encoded.decode()
            faults += non_finite_faults(name, value, encoded)
            if "\x00" in fields[name] or (name.endswith("_json") and _ESCAPED_NUL.search(fields[name])):
                faults.append(Fault(field=name, code="nul_character", message="holds a NUL character"))
    size = sum(len(name) + len(value.encode()) for name, value in fields.items())
    if size > LARGEST_ENTRY:
        message = f"has {size:,} bytes; at most {LARGEST_ENTRY:,} are taken"
        faults.append(Fault(field="$", code="too_large", message=message))
    if faults:
        raise EntryFaultsError(*faults)
    return fields


def read_fields(fields: Fields) -> Intent:
    """Build the intent of an entry, or raise every fault of its fields."""
    missing = [name for name in REQUIRED if not fields.get(name)]
    faults = [Fault(field=name, code="missing", message="is missing") for name in missing]
    built: dict[str, Any] = {
        "type": fields.get("notification_type"),
        "idempotency_key": fields.get("idempotency_key"),
        "request_id": fields.get("request_id") or None,
        "trace_id": fields.get("trace_id") or None,
    }
    for name, key, read in (
        ("audience_kind", "audience", _audience),
        ("occurred_at_ms", "occurred_at", read_moment),
        ("payload_json", "payload", read_object),
    ):
        if name in missing:
            continue
        try:
            built[key] = read(name, fields)
        except EntryFaultsError as error:
            faults += error.faults
    faults += producer_faults("producer", fields)
    if faults:
        raise EntryFaultsError(*faults)
    try:
        return msgspec.convert(built, Intent)
    except msgspec.ValidationError as error:
        fault = validation_fault(error)
        field = _FIELD_OF.get(fault.field, fault.field)
        raise EntryFaultsError(msgspec.structs.replace(fault, field=field)) from error


def _audience(name: str, fields: Fields) -> dict[str, Any]:
    kind, listed = fields[name], fields.get("recipient_user_ids_json")
    match kind:
        case "user":
            if not listed:
                raise _fault("recipient_user_ids_json", "missing", "is required of audience_kind user")
            user_ids = _decoded("recipient_user_ids_json", _user_ids, listed)
            if not user_ids:
                raise _fault("recipient_user_ids_json", "empty", "must have one user id or more")
            if len(set(user_ids)) < len(user_ids):
                raise _fault("recipient_user_ids_json", "repeated", "has a user id more than once")
            return {"users": user_ids}
        case "admin_email":
            if listed:
                raise _fault(
                    "recipient_user_ids_json", "forbidden", "is not allowed with audience_kind admin_email"
                )
            return {"admins": True}
        case _:
            raise _fault(name, "unknown", "must be user or admin_email")


def producer_faults(name: str, fields: Fields) -> list[Fault]:
    """List what is wrong with the field that names the producer, if it is there."""
    producer = fields.get(name, "x")
    if len(producer) > LONGEST_PRODUCER:
        message = f"is longer than {LONGEST_PRODUCER} characters"
        return [Fault(field=name, code="too_long", message=message)]
    if not producer.isprintable():
        return [Fault(field=name, code="invalid", message="has characters that cannot be shown")]
    return []


def read_moment(name: str, fields: Fields) -> datetime:
    """Parse a field with milliseconds since 1970."""
    text = fields[name]
    is_number = text.isascii() and text.isdecimal() and len(text) <= len(str(_LAST_MS))
    if not is_number or int(text) > _LAST_MS:
        raise _fault(name, "invalid", "must be milliseconds since 1970, in digits")
    return _EPOCH + timedelta(milliseconds=int(text))


def read_object(name: str, fields: Fields) -> dict[str, Any]:
    """Parse a field with a JSON object."""
    found: dict[str, Any] = _decoded(name, _object, fields[name])
    return found


def _decoded(field: str, decoder: msgspec.json.Decoder[Any], text: str) -> Any:
    try:
        return decoder.decode(text)
    except msgspec.ValidationError as error:
        message = validation_fault(error).message
        raise EntryFaultsError(Fault(field=field, code="invalid", message=message)) from error
    except (msgspec.DecodeError, RecursionError) as error:
        message = f"is not JSON: {error}"
        raise EntryFaultsError(Fault(field=field, code="malformed_json", message=message)) from error


def _fault(field: str, code: str, message: str) -> EntryFaultsError:
    return EntryFaultsError(Fault(field=field, code=code, message=message))
