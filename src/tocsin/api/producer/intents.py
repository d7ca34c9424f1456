"""Decoding intents from HTTP bodies."""

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec

from tocsin.api.http.batches import may_be_of_an_item, split_body
from tocsin.api.http.bodies import decode, decode_outline, may_be_deep
from tocsin.api.http.problems import ProblemError
from tocsin.domain.faults import Fault
from tocsin.domain.intent import Intent
from tocsin.engine.accept.answers import Unreadable
from tocsin.engine.time_slice import TimeSlice, steps
from tocsin.store.sources.refused import LONGEST_CONTENT
from tocsin.wire.answers import LARGEST_BATCH

_decode_intent = msgspec.json.Decoder(Intent).decode
_NESTING = frozenset({dict, list})

EXAMPLE = {
    "type": "new_customer",
    "audience": {"users": ["42"]},
    "payload": {"customer_name": "Ada"},
    "idempotency_key": "order-1001",
}


class _Batch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An `IntentBatch` whose intents are decoded one by one, so that a faulty one fails alone."""

    notifications: Annotated[list[msgspec.Raw], msgspec.Meta(min_length=1, max_length=LARGEST_BATCH)]


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


async def split_batch(body: bytes) -> list[msgspec.Raw]:
    """Return the intents of a batch, not yet decoded; raise a problem if the body is no batch."""
    try:
        return decode_outline(body, _Batch).notifications
    except ProblemError as error:
        split = await split_body(body, LARGEST_BATCH) if may_be_of_an_item(error.problem, body) else None
        if split is None:
            raise
        try:
            decode_outline(split.outline, _Batch)
        except ProblemError as fault:
            # What is no JSON is not in an item; the first message has its place in the whole body.
            raise (error if fault.problem.errors is None else fault) from None
        return split.elements


async def read_items(items: Sequence[msgspec.Raw], *, may_hold_nul: bool) -> list[Intent | Unreadable]:
    """Decode the intents of a batch, in time slices.

    One that is valid and beside valid ones, as most are, is decoded once and not searched for anything.
    """
    intents: list[Intent | Unreadable] = []
    slice_ = TimeSlice()
    for step in steps(items):
        if slice_.is_over:
            await slice_.pause()
        intents += (None if may_hold_nul else _read_valid(step)) or map(read_item, step)
    return intents


def _read_valid(items: Sequence[msgspec.Raw]) -> list[Intent] | None:
    """Decode intents without NUL characters, unless one of them is faulty or may be nested too deep."""
    try:
        intents = list(map(_decode_intent, items))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    for item, intent in zip(items, intents, strict=True):
        if not _NESTING.isdisjoint(map(type, intent.payload.values())) and may_be_deep(bytes(item)):
            return None
    return intents


def read_item(raw: msgspec.Raw) -> Intent | Unreadable:
    """Decode one intent of a batch, or list its faults."""
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
