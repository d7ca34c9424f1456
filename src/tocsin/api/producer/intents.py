"""Decoding intents from HTTP bodies."""

from typing import Any

import msgspec

from tocsin.api.http.bodies import Broken, read_body
from tocsin.domain.faults import Fault
from tocsin.domain.intent import Intent
from tocsin.engine.accept.answers import Unreadable
from tocsin.store.refused import LONGEST_CONTENT

EXAMPLE = {
    "type": "new_customer",
    "audience": {"users": ["42"]},
    "payload": {"customer_name": "Ada"},
    "idempotency_key": "order-1001",
}


def read_intent(raw: bytes | msgspec.Raw) -> Intent | Unreadable | Broken:
    """Decode one intent; a faulty one becomes `Unreadable`, so that it is recorded as refused."""
    read = read_body(raw, Intent)
    if isinstance(read, Intent | Broken):
        return read
    return _unreadable(bytes(raw), read.faults)


def read_question(raw: bytes) -> Intent | Unreadable | Broken:
    """Decode an intent to explain, which needs no key."""
    try:
        fields = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return read_intent(raw)
    fields.setdefault("idempotency_key", msgspec.Raw(b'"explain"'))
    return read_intent(msgspec.json.encode(fields))


def read_keyed_intent(raw: bytes, key: str) -> Intent | Unreadable | Broken:
    """Decode one intent whose idempotency key came in a header; a key in the body must be equal."""
    try:
        fields = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return read_intent(raw)
    if "idempotency_key" not in fields:
        fields["idempotency_key"] = msgspec.Raw(msgspec.json.encode(key))
        return read_intent(msgspec.json.encode(fields))
    intent = read_intent(raw)
    if isinstance(intent, Intent) and intent.idempotency_key != key:
        fault = Fault(
            field="idempotency_key",
            code="contradicts_header",
            message="differs from the Idempotency-Key header; send one of them",
        )
        return _unreadable(raw, [fault])
    return intent


def read_item(raw: msgspec.Raw) -> Intent | Unreadable:
    """Decode one intent of a batch."""
    intent = read_intent(raw)
    if isinstance(intent, Broken):
        fault = Fault(field="$", code="malformed_json", message=intent.reason)
        return _unreadable(bytes(raw), [fault])
    return intent


def _unreadable(raw: bytes, faults: list[Fault]) -> Unreadable:
    content = raw[:LONGEST_CONTENT].decode(errors="replace")
    fields = _fields(raw)
    return Unreadable(
        faults=faults,
        content=content,
        type=_text(fields.get("type")),
        idempotency_key=_text(fields.get("idempotency_key")),
    )


def _fields(raw: bytes) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
