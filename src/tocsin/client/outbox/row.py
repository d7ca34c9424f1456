"""What is published, written as the function in the database reads it."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple, Required, TypedDict

import msgspec

FUNCTION = "tocsin_publish"

_AUDIENCES = ("users", "emails", "admins", "topic", "condition")
_NOT_OF_THE_INTENT = frozenset({*_AUDIENCES, "aggregate", "aggregate_id", "function"})
_encoder = msgspec.json.Encoder()


class Particulars(TypedDict, total=False):
    """All that can be said of what happened, besides its type: to whom, with what, when.

    Rows of the same aggregate are relayed in their order, if the relay was told to keep it. The function is
    found by the search path unless its schema is named: `sales.tocsin_publish`.
    """

    users: Sequence[str | int]
    emails: Sequence[str]
    admins: bool
    topic: str
    condition: str
    payload: Required[Mapping[str, Any]]
    version: int | None
    send_at: datetime | None
    send_at_local: datetime | None
    ttl_seconds: int | None
    collapse_key: str | None
    request_id: str | None
    trace_id: str | None
    occurred_at: datetime | None
    idempotency_key: str | None
    aggregate: str | None
    aggregate_id: str | None
    function: str


class Call(NamedTuple):
    """The function to call, quoted, and its arguments."""

    function: str
    intent: str
    aggregate: str | None
    aggregate_id: str | None


def call(type_name: str, given: Particulars) -> Call:
    """Put into words what is to be published."""
    said: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    audience = {name: said[name] for name in _AUDIENCES if name in said}
    fields = {name: value for name, value in said.items() if name not in _NOT_OF_THE_INTENT}
    return Call(
        function=".".join(map(_quoted, given.get("function", FUNCTION).split("."))),
        intent=_encoder.encode({"type": type_name, "audience": audience, **fields}).decode(),
        aggregate=given.get("aggregate"),
        aggregate_id=given.get("aggregate_id"),
    )


def _quoted(name: str) -> str:
    doubled = name.replace('"', '""')
    return f'"{doubled}"'
