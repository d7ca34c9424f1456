"""The envelopes of outbox rows, decoded as intents."""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, TypeVar, assert_never

import msgspec

from tocsin.catalog.catalog import Catalog
from tocsin.domain.faults import Fault
from tocsin.domain.intent import Intent
from tocsin.engine.accept.answers import Unreadable
from tocsin.engine.accept.organisations import bind
from tocsin.ingress.envelopes import declared_by, decoding_fault
from tocsin.ingress.outbox.rows import Row
from tocsin.ingress.outbox.settings import OutboxSettings
from tocsin.ingress.outbox.table import LARGEST_TEXT
from tocsin.store.sources.refused import LONGEST_CONTENT
from tocsin.wire.fisa.envelope import decode_row, to_intent

Reader: TypeAlias = Callable[[Row], Intent | Unreadable]
T = TypeVar("T")

_fields = msgspec.json.Decoder(dict[str, Any])


def reader(settings: OutboxSettings, catalog: Catalog, *, org_scoping: bool = False) -> Reader:
    """Return a function that decodes rows of an outbox and never raises.

    With `org_scoping`, an envelope is for people of its organisation. An outbox that is bound to one refuses
    those of another.
    """

    def decode(row: Row) -> Intent:
        match settings.envelope:
            case "intent":
                return read_intent(row, str(row.id))
            case "fisa":
                scoped = org_scoping or settings.org_id is not None
                return _read_fisa(row, settings.types, catalog, scoped=scoped)
            case _:
                assert_never(settings.envelope)

    def read(row: Row) -> Intent | Unreadable:
        found = decoded(row, decode)
        intent = _unreadable(row, found) if isinstance(found, Fault) else found
        return intent if settings.org_id is None else bind(intent, settings.org_id)

    return read


def decoded(row: Row, decode: Callable[[Row], T]) -> T | Fault:
    """Decode a row, or return what is wrong with it; never raise."""
    if len(row.payload) > LARGEST_TEXT:
        message = f"is more than {LARGEST_TEXT} characters as JSON"
        return Fault(field="$", code="too_large", message=message)
    try:
        return decode(row)
    except Exception as error:  # noqa: BLE001 - a row can hold anything
        return decoding_fault(error)


def read_intent(row: Row, key: str) -> Intent:
    """Decode a row that holds an intent, or raise; its idempotency key is `key` unless it has its own."""
    fields = _fields.decode(row.payload)
    if row.type is not None:
        fields.setdefault("type", row.type)
    own = fields.setdefault("idempotency_key", key)
    if own != str(row.id) and isinstance(own, str) and own.isdecimal():
        raise msgspec.ValidationError(
            "A bare number is taken for an id of the outbox - at `$.idempotency_key`"
        )
    return msgspec.convert(fields, Intent)


def _read_fisa(row: Row, types: Mapping[str, str], catalog: Catalog, *, scoped: bool) -> Intent:
    """Decode a row that holds an envelope of fisa; its idempotency key is the row's id."""
    envelope = decode_row(row.payload, row.id, row.type)
    return to_intent(envelope, types, declared_by(catalog), key=str(row.id), scoped=scoped)


def _unreadable(row: Row, fault: Fault) -> Unreadable:
    return Unreadable(
        faults=[fault], content=row.payload[:LONGEST_CONTENT], type=row.type, idempotency_key=str(row.id)
    )
