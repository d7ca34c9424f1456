"""The entries of a stream, decoded as intents."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from tocsin.domain.faults import Fault
from tocsin.domain.intent import Intent
from tocsin.engine.accept.answers import Unreadable
from tocsin.engine.accept.write import Sourced
from tocsin.store.refused import LONGEST_CONTENT
from tocsin.wire.faults import validation_fault

REQUIRED = (
    "notification_type",
    "producer",
    "audience_kind",
    "idempotency_key",
    "occurred_at_ms",
    "payload_json",
)
LONGEST_PRODUCER = 100
LARGEST_ENTRY = 262_144
"""Bytes of an entry that are decoded at all."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LAST_MS = 253_402_300_799_999
"""The end of the year 9999."""
_FIELD_OF = {"type": "notification_type", "payload": "payload_json", "occurred_at": "occurred_at_ms"}
"""The fields of an entry behind those of an intent, where their names differ."""

Fields = Mapping[str, str]
_object = msgspec.json.Decoder(dict[str, Any])
_user_ids = msgspec.json.Decoder(list[str])


class _EntryFaultsError(Exception):
    def __init__(self, *faults: Fault) -> None:
        super().__init__(faults)
        self.faults = faults


def read_entry(entry_id: str, raw: Mapping[bytes, bytes], unknown_producer: str) -> Sourced:
    """Decode an entry; one that is no valid intent is `Unreadable`, and never raises."""
    fields, faults = _as_text(raw)
    content = msgspec.json.encode({"stream_entry_id": entry_id, "fields": fields}).decode()
    producer = fields.get("producer") or unknown_producer
    return Sourced(
        producer=producer[:LONGEST_PRODUCER].replace("\x00", "\ufffd"),
        intent=_unreadable(fields, content, faults) if faults else _read(fields, content),
        external_id=entry_id,
        content=content,
    )


def _read(fields: Fields, content: str) -> Intent | Unreadable:
    try:
        return _intent(fields)
    except _EntryFaultsError as error:
        return _unreadable(fields, content, error.faults)


def _as_text(raw: Mapping[bytes, bytes]) -> tuple[dict[str, str], list[Fault]]:
    """Decode names and values; what is no UTF-8 is a fault, and shown with replacement characters."""
    fields, faults = {}, []
    size = sum(len(name) + len(value) for name, value in raw.items())
    if size > LARGEST_ENTRY:
        message = f"has {size:,} bytes; at most {LARGEST_ENTRY:,} are taken"
        faults.append(Fault(field="$", code="too_large", message=message))
        raw = {name[:200]: value[:2_000] for name, value in list(raw.items())[:20]}
    for name, value in raw.items():
        shown = name.decode(errors="replace")
        fields[shown] = value.decode(errors="replace")
        if fields[shown].encode() != value or shown.encode() != name:
            faults.append(Fault(field=shown[:100], code="not_text", message="is not UTF-8"))
    return fields, faults


def _intent(fields: Fields) -> Intent:
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
        ("occurred_at_ms", "occurred_at", _occurred_at),
        ("payload_json", "payload", _payload),
    ):
        if name in missing:
            continue
        try:
            built[key] = read(fields)
        except _EntryFaultsError as error:
            faults += error.faults
    if len(fields.get("producer", "")) > LONGEST_PRODUCER:
        message = f"is longer than {LONGEST_PRODUCER} characters"
        faults.append(Fault(field="producer", code="too_long", message=message))
    elif not fields.get("producer", "x").isprintable():
        faults.append(Fault(field="producer", code="invalid", message="has characters that cannot be shown"))
    if faults:
        raise _EntryFaultsError(*faults)
    try:
        return msgspec.convert(built, Intent)
    except msgspec.ValidationError as error:
        fault = validation_fault(error)
        field = _FIELD_OF.get(fault.field, fault.field)
        raise _EntryFaultsError(msgspec.structs.replace(fault, field=field)) from error


def _audience(fields: Fields) -> dict[str, Any]:
    kind, listed = fields["audience_kind"], fields.get("recipient_user_ids_json")
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
            raise _fault("audience_kind", "unknown", "must be user or admin_email")


def _occurred_at(fields: Fields) -> datetime:
    text = fields["occurred_at_ms"]
    is_number = text.isascii() and text.isdecimal() and len(text) <= len(str(_LAST_MS))
    if not is_number or int(text) > _LAST_MS:
        raise _fault("occurred_at_ms", "invalid", "must be milliseconds since 1970, in digits")
    return _EPOCH + timedelta(milliseconds=int(text))


def _payload(fields: Fields) -> dict[str, Any]:
    payload: dict[str, Any] = _decoded("payload_json", _object, fields["payload_json"])
    return payload


def _decoded(field: str, decoder: msgspec.json.Decoder[Any], text: str) -> Any:
    try:
        return decoder.decode(text)
    except msgspec.ValidationError as error:
        message = validation_fault(error).message
        raise _EntryFaultsError(Fault(field=field, code="invalid", message=message)) from error
    except (msgspec.DecodeError, RecursionError) as error:
        message = f"is not JSON: {error}"
        raise _EntryFaultsError(Fault(field=field, code="malformed_json", message=message)) from error


def _fault(field: str, code: str, message: str) -> _EntryFaultsError:
    return _EntryFaultsError(Fault(field=field, code=code, message=message))


def _unreadable(fields: Fields, content: str, faults: Sequence[Fault]) -> Unreadable:
    return Unreadable(
        faults=faults,
        content=content[:LONGEST_CONTENT],
        type=fields.get("notification_type"),
        idempotency_key=fields.get("idempotency_key"),
    )
