"""Decoding intents from HTTP bodies."""

from collections.abc import Sequence
from typing import Any

import msgspec

from tocsin.api.http.bodies import decode
from tocsin.api.http.problems import ProblemError
from tocsin.domain.faults import Fault
from tocsin.domain.intent import Intent
from tocsin.engine.accept.answers import Unreadable
from tocsin.store.sources.refused import LONGEST_CONTENT

EXAMPLE = {
    "type": "new_customer",
    "audience": {"users": ["42"]},
    "payload": {"customer_name": "Ada"},
    "idempotency_key": "order-1001",
}


def read_intent(raw: bytes | msgspec.Raw) -> Intent | Unreadable:
    """Decode one intent; a faulty one becomes `Unreadable`, so that it is recorded as refused.

    A body that is not JSON raises a problem.
    """
    try:
        return decode(raw, Intent)
    except ProblemError as error:
        if error.problem.errors is None:
            raise
        return _unreadable(bytes(raw), error.problem.errors)


def read_question(raw: bytes) -> Intent | Unreadable:
    """Decode an intent to explain, which needs no key."""
    return read_intent(_with_key(raw, "explain"))


def read_keyed_intent(raw: bytes, key: str) -> Intent | Unreadable:
    """Decode one intent whose idempotency key came in a header; a key in the body must be equal."""
    intent = read_intent(_with_key(raw, key))
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
    try:
        return read_intent(raw)
    except ProblemError as error:
        fault = Fault(field="$", code=error.problem.code, message=error.problem.detail)
        return _unreadable(bytes(raw), [fault])


def _with_key(raw: bytes, key: str) -> bytes:
    """Add an idempotency key to an intent that has none."""
    try:
        fields = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return raw
    added = {"idempotency_key": msgspec.Raw(msgspec.json.encode(key))}
    return raw if "idempotency_key" in fields else msgspec.json.encode(fields | added)


def _unreadable(raw: bytes, faults: Sequence[Fault]) -> Unreadable:
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
