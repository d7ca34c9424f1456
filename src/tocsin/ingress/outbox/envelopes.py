"""What the rows of an outbox hold, read as intents."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, TypeAlias, assert_never

import msgspec

from tocsin.catalog.catalog import Catalog
from tocsin.domain.faults import Fault
from tocsin.domain.intent import Intent
from tocsin.engine.accept.answers import Unreadable
from tocsin.ingress.outbox.settings import OutboxSettings
from tocsin.ingress.outbox.table import LARGEST_TEXT, Row
from tocsin.store.refused import LONGEST_CONTENT

Reader: TypeAlias = Callable[[Row], Intent | Unreadable]

_fields = msgspec.json.Decoder(dict[str, Any])


class FisaEnvelope(msgspec.Struct, frozen=True, kw_only=True):
    """A message as the outboxes of fisa hold it; what else it carries is left alone."""

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
    """Give what reads the rows of an outbox; whatever one of them holds, it does not stop the rest."""
    read = _envelope_reader(settings, catalog)

    def guarded(row: Row) -> Intent | Unreadable:
        if len(row.payload) > LARGEST_TEXT:
            message = f"is more than {LARGEST_TEXT} characters as JSON"
            return _unreadable(row, Fault(field="$", code="too_large", message=message))
        try:
            return read(row)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            return _unreadable(row, _fault(error))
        except Exception as error:  # noqa: BLE001 - a row can hold anything
            message = f"cannot be read ({type(error).__name__})"
            return _unreadable(row, Fault(field="$", code="unreadable", message=message))

    return guarded


def _envelope_reader(settings: OutboxSettings, catalog: Catalog) -> Callable[[Row], Intent]:
    match settings.envelope:
        case "intent":
            return _read_intent
        case "fisa":
            return lambda row: _read_fisa(row, settings.types, catalog)
        case _:
            assert_never(settings.envelope)


def _read_intent(row: Row) -> Intent:
    """Read a row that holds an intent; its key is the row's id unless it brings its own."""
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
    """Read a row that holds an envelope of fisa's; its key is the row's id."""
    envelope = _fisa.decode(row.payload)
    event = envelope.event_type or row.type or ""
    kind = types.get(event, event.replace(".", "_"))
    fields = {
        "type": kind,
        "audience": {"users": envelope.recipients},
        "payload": _fitting(_payload(envelope), kind, catalog),
        "idempotency_key": str(row.id),
        "trace_id": envelope.correlation_id,
        "occurred_at": _moment(envelope.created_at),
    }
    return msgspec.convert(fields, Intent)


def _payload(envelope: FisaEnvelope) -> dict[str, Any]:
    """Lay out what a template may show: extras both as a whole and one by one."""
    extras = envelope.extras or {}
    shown = {name: getattr(envelope, name) for name in _SHOWN}
    offered = {**extras, "extras": extras or None, **shown}
    return {name: value for name, value in offered.items() if value is not None}


def _fitting(payload: dict[str, Any], kind: str, catalog: Catalog) -> dict[str, Any]:
    """Leave out what the type has declared that it does not take."""
    unknown = {fault.field for fault in catalog.faults(kind, None, payload) if fault.code == "unknown"}
    return {name: value for name, value in payload.items() if f"payload.{name}" not in unknown}


def _moment(written: datetime | None) -> datetime | None:
    return written.replace(tzinfo=UTC) if written and written.tzinfo is None else written


def _fault(error: Exception) -> Fault:
    if isinstance(error, RecursionError):
        return Fault(field="$", code="too_deep", message="is nested too deep")
    if not isinstance(error, msgspec.ValidationError):
        return Fault(field="$", code="malformed_json", message=f"is not JSON: {error}")
    message, _, place = str(error).partition(" - at `$")
    # Within what is of no declared type, places are not named.
    field = place.strip(".`") if "[...]" not in place else ""
    return Fault(field=field or "$", code="invalid", message=message.replace("`", ""))


def _unreadable(row: Row, fault: Fault) -> Unreadable:
    return Unreadable(
        faults=[fault], content=row.payload[:LONGEST_CONTENT], type=row.type, idempotency_key=str(row.id)
    )
