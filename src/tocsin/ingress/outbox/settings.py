"""The settings of each application's outbox."""

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import Meta

from tocsin.domain.faults import Fault

KEPT_DAYS = 7

Identifier: TypeAlias = Annotated[str, Meta(min_length=1, max_length=63, pattern=r"^[^\x00]+\Z")]
Envelope: TypeAlias = Literal["intent", "fisa"]

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}")


class OutboxColumns(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The column names of an outbox; an optional one that is left out has its usual name."""

    id: Identifier = "id"
    payload: Identifier | None = None
    type: Identifier | None = None
    aggregate: Identifier | None = None
    aggregate_id: Identifier | None = None
    created_at: Identifier | None = None
    published_at: Identifier = "published_at"
    failed_attempts: Identifier = "failed_attempts"
    next_retry_at: Identifier = "next_retry_at"
    last_error: Identifier = "last_error"


class OutboxSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One outbox: its address, how it is read, and the envelope of its rows.

    Published rows are pruned after `keep_days`, 0 meaning never. The default is a week for intents and never
    for another envelope: a table that existed before may serve as a record.
    """

    url: str = ""
    schema: Identifier = "public"
    table: Identifier = "tocsin_outbox"
    producer: Annotated[str, Meta(min_length=1, max_length=100, pattern=r"^[^\x00-\x1f\x7f]+\Z")] | None = (
        None
    )
    batch: Annotated[int, Meta(ge=1, le=1_000)] = 500
    poll_seconds: Annotated[float, Meta(gt=0, le=3_600)] = 1.0
    order: Literal["none", "aggregate"] = "none"
    keep_days: Annotated[int, Meta(ge=0, le=3_650)] | None = None
    envelope: Envelope = "intent"
    types: dict[str, str] = {}
    columns: OutboxColumns = OutboxColumns()

    def __repr__(self) -> str:
        """Show no address: it may hold a password."""
        return f"OutboxSettings({self.schema}.{self.table})"

    @property
    def kept_days(self) -> int:
        """For how many days a published row is kept; 0 means forever."""
        if self.keep_days is not None:
            return self.keep_days
        return KEPT_DAYS if self.envelope == "intent" else 0


def producer_of(name: str, settings: OutboxSettings) -> str:
    """Return the producer of an outbox's intents."""
    return settings.producer or name


def outbox_settings_faults(outboxes: Mapping[str, OutboxSettings]) -> Iterator[Fault]:
    """Check names, addresses and producers of the outboxes."""
    holders: dict[str, str] = {}
    for name, settings in outboxes.items():
        where = f"outboxes.{name}"
        if not _NAME.fullmatch(name):
            message = "must be named by lower-case letters, digits, underscores and dashes, at most 40"
            yield Fault(field=where, code="invalid", message=message)
        if not settings.url.startswith(("postgresql://", "postgres://")):
            message = "must be the address of the application's database, postgresql://…"
            yield Fault(
                field=f"{where}.url", code="missing" if not settings.url else "invalid", message=message
            )
        if settings.types and settings.envelope == "intent":
            message = 'is for envelope = "fisa"; an intent names its type itself'
            yield Fault(field=f"{where}.types", code="contradiction", message=message)
        producer = producer_of(name, settings)
        if (holder := holders.setdefault(producer, name)) != name:
            message = f"{producer} is that of outboxes.{holder} too; their idempotency keys would collide"
            yield Fault(field=f"{where}.producer", code="contradiction", message=message)
