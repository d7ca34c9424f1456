"""The call of the database function that writes a row into the outbox."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple, Required, TypedDict

from tocsin.client.encoding import encode_fields

FUNCTION = "tocsin_publish"
ROW_FIELDS = frozenset({"aggregate", "aggregate_id", "function"})


class Particulars(TypedDict, total=False):
    """The fields of an intent besides its type, and those of its row.

    Rows of the same aggregate are relayed in order, if the relay is configured to keep it. The function is
    found by the search path unless its schema is named: `sales.tocsin_publish`.
    """

    users: Sequence[str | int]
    emails: Sequence[str]
    admins: bool
    topic: str
    condition: str
    attributes: Mapping[str, Any]
    payload: Required[Mapping[str, Any]]
    version: int | None
    send_at: datetime | None
    send_at_local: datetime | None
    ttl_seconds: int | None
    collapse_key: str | None
    request_id: str | None
    trace_id: str | None
    occurred_at: datetime | None
    locale: str | None
    org_id: str | None
    idempotency_key: str | None
    aggregate: str | None
    aggregate_id: str | None
    function: str


class PublishCall(NamedTuple):
    """The function to call, quoted, and its arguments."""

    function: str
    intent: str
    aggregate: str | None
    aggregate_id: str | None


def publish_call(type_name: str, given: Particulars) -> PublishCall:
    """Build the call that publishes an intent."""
    return PublishCall(
        function=".".join(map(_quoted, given.get("function", FUNCTION).split("."))),
        intent=encode_fields({"type": type_name, **given}, besides=ROW_FIELDS).decode(),
        aggregate=given.get("aggregate"),
        aggregate_id=given.get("aggregate_id"),
    )


def _quoted(name: str) -> str:
    doubled = name.replace('"', '""')
    return f'"{doubled}"'
