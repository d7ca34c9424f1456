"""The envelopes of outbox rows, decoded as intents."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, TypeAlias, assert_never

import msgspec

from tocsin.catalog.catalog import Catalog
from tocsin.domain.faults import Fault
from tocsin.domain.intent import Intent
from tocsin.engine.accept.answers import Unreadable
from tocsin.ingress.outbox.rows import Row
from tocsin.ingress.outbox.settings import OutboxSettings
from tocsin.ingress.outbox.table import LARGEST_TEXT
from tocsin.store.refused import LONGEST_CONTENT
from tocsin.wire.faults import validation_fault

Reader: TypeAlias = Callable[[Row], Intent | Unreadable]

_fields = msgspec.json.Decoder(dict[str, Any])


class FisaEnvelope(msgspec.Struct, frozen=True, kw_only=True):
    """A message in the format of fisa; unknown fields are ignored."""

    event_type: str | None = None
    org_id: str | int | None = None
    recipients: list[str | int] = []
    title: str | None = None
    body: str | None = None
    icon: str | None = None
    severity: str | None = None
    deep_link: str | None = None
    extras: dict[str, Any] | None = None
    created_at: datetime | None = None
    correlation_id: str | None = None


_fisa = msgspec.json.Decoder(FisaEnvelope)
_SHOWN = ("org_id", "title", "body", "icon", "severity", "deep_link")


def reader(settings: OutboxSettings, catalog: Catalog) -> Reader:
    """Return a function that decodes rows of an outbox and never raises."""

    def read(row: Row) -> Intent | Unreadable:
        if len(row.payload) > LARGEST_TEXT:
            message = f"is more than {LARGEST_TEXT} characters as JSON"
            return _unreadable(row, Fault(field="$", code="too_large", message=message))
        try:
            match settings.envelope:
                case "intent":
                    return _read_intent(row)
                case "fisa":
                    return _read_fisa(row, settings.types, catalog)
                case _:
                    assert_never(settings.envelope)
        except Exception as error:  # noqa: BLE001 - a row can hold anything
            return _unreadable(row, _fault(error))

    return read


def _read_intent(row: Row) -> Intent:
    """Decode a row that holds an intent; its idempotency key is the row's id unless it has its own."""
    fields = _fields.decode(row.payload)
    if row.type is not None:
        fields.setdefault("type", row.type)
    own = fields.setdefault("idempotency_key", str(row.id))
    if own != str(row.id) and isinstance(own, str) and own.isdecimal():
        raise msgspec.ValidationError(
            "A bare number is taken for an id of the outbox - at `$.idempotency_key`"
        )
    return msgspec.convert(fields, Intent)


def _read_fisa(row: Row, types: Mapping[str, str], catalog: Catalog) -> Intent:
    """Decode a row that holds an envelope of fisa; its idempotency key is the row's id."""
    envelope = _fisa.decode(row.payload)
    event = envelope.event_type or row.type or ""
    type_ = types.get(event, event.replace(".", "_"))
    fields = {
        "type": type_,
        "audience": {"users": envelope.recipients},
        "payload": _declared(_payload(envelope), type_, catalog),
        "idempotency_key": str(row.id),
        "trace_id": envelope.correlation_id,
        "occurred_at": _as_utc(envelope.created_at),
    }
    return msgspec.convert(fields, Intent)


def _payload(envelope: FisaEnvelope) -> dict[str, Any]:
    """Build the payload: the fields of the envelope, and its extras both as a whole and one by one."""
    extras = envelope.extras or {}
    fields = {**extras, "extras": extras or None, **{name: getattr(envelope, name) for name in _SHOWN}}
    return {name: value for name, value in fields.items() if value is not None}


def _declared(payload: dict[str, Any], type_: str, catalog: Catalog) -> dict[str, Any]:
    """Drop the fields that the payload schema of the type does not allow."""
    unknown = {fault.field for fault in catalog.faults(type_, None, payload) if fault.code == "unknown"}
    return {name: value for name, value in payload.items() if f"payload.{name}" not in unknown}


def _as_utc(time: datetime | None) -> datetime | None:
    return time.replace(tzinfo=UTC) if time and time.tzinfo is None else time


def _fault(error: Exception) -> Fault:
    match error:
        case RecursionError():
            return Fault(field="$", code="too_deep", message="is nested too deep")
        case msgspec.ValidationError():
            fault = validation_fault(error)
            # Within a value of no declared type, msgspec does not name the place.
            return msgspec.structs.replace(fault, field="$") if "[...]" in fault.field else fault
        case msgspec.DecodeError() | UnicodeDecodeError():
            return Fault(field="$", code="malformed_json", message=f"is not JSON: {error}")
        case _:
            message = f"cannot be read ({type(error).__name__})"
            return Fault(field="$", code="unreadable", message=message)


def _unreadable(row: Row, fault: Fault) -> Unreadable:
    return Unreadable(
        faults=[fault], content=row.payload[:LONGEST_CONTENT], type=row.type, idempotency_key=str(row.id)
    )
