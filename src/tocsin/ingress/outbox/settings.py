"""The settings of each application's outbox."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import Meta

from tocsin.domain.faults import Fault
from tocsin.domain.people.organisations import OrgId
from tocsin.ingress.names import name_faults

SCHEMA = "public"
TABLE = "tocsin_outbox"
KEPT_DAYS = 7
BATCH = 500
POLL_SECONDS = 1.0
# A round of a topic is a hundred calls at most, while its rows stay locked.
TOPIC_BATCH = 100
TOPIC_POLL_SECONDS = 0.8

Identifier: TypeAlias = Annotated[str, Meta(min_length=1, max_length=63, pattern=r"^[^\x00]+\Z")]
Envelope: TypeAlias = Literal["intent", "fisa"]
TopicArn: TypeAlias = Annotated[
    str,
    Meta(
        max_length=400,
        pattern=r"^arn:aws[a-z-]*:sns:[a-z0-9-]+:[0-9]{12}:[A-Za-z0-9_-]{1,256}(\.fifo)?\Z",
        examples=["arn:aws:sns:eu-west-1:123456789012:notify.fifo"],
    ),
]


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
    """One outbox: its address, how it is read, the envelope of its rows, and where they go.

    With `topic_arn` they are published to a topic of SNS instead of being accepted; a topic whose name ends
    with `.fifo` keeps the order of each user. `check_personal_data` logs what looks like such data.

    Published rows are pruned after `keep_days`, 0 meaning never. The default is a week for intents and never
    for another envelope: a table that existed before may serve as a record. With `org_id`, all of its intents
    are for people of that organisation.
    """

    url: str = ""
    schema: Identifier = SCHEMA
    table: Identifier = TABLE
    producer: Annotated[str, Meta(min_length=1, max_length=100, pattern=r"^[^\x00-\x1f\x7f]+\Z")] | None = (
        None
    )
    batch: Annotated[int, Meta(ge=1, le=1_000)] | None = None
    poll_seconds: Annotated[float, Meta(gt=0, le=3_600)] | None = None
    order: Literal["none", "aggregate"] = "none"
    keep_days: Annotated[int, Meta(ge=0, le=3_650)] | None = None
    envelope: Envelope = "intent"
    types: dict[str, str] = {}
    org_id: OrgId | None = None
    topic_arn: TopicArn | None = None
    check_personal_data: bool = True
    columns: OutboxColumns = OutboxColumns()

    def __repr__(self) -> str:
        """Show no address: it may hold a password."""
        return f"OutboxSettings({self.schema}.{self.table})"

    @property
    def batch_size(self) -> int:
        """How many rows are read at once."""
        return self.batch or (TOPIC_BATCH if self.topic_arn else BATCH)

    @property
    def poll_interval(self) -> float:
        """After how many seconds an outbox is read again in which nothing waited."""
        return self.poll_seconds or (TOPIC_POLL_SECONDS if self.topic_arn else POLL_SECONDS)

    @property
    def is_fifo(self) -> bool:
        """Whether the rows go to a topic that keeps the order of each user."""
        return self.topic_arn is not None and self.topic_arn.endswith(".fifo")

    @property
    def in_order(self) -> bool:
        """Whether the rows are handled in an order, and so by one relay at a time."""
        return self.order == "aggregate" or self.is_fifo

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
    yield from name_faults("outboxes", outboxes)
    for name, settings in outboxes.items():
        where = f"outboxes.{name}"
        if not settings.url.startswith(("postgresql://", "postgres://")):
            message = "must be the address of the application's database, postgresql://…"
            yield Fault(
                field=f"{where}.url", code="missing" if not settings.url else "invalid", message=message
            )
        if settings.topic_arn:
            yield from _topic_faults(where, settings)
            continue
        if settings.types and settings.envelope == "intent":
            message = 'is for envelope = "fisa"; an intent names its type itself'
            yield Fault(field=f"{where}.types", code="contradiction", message=message)
        producer = producer_of(name, settings)
        if (holder := holders.setdefault(producer, name)) != name:
            message = f"{producer} is that of outboxes.{holder} too; their idempotency keys would collide"
            yield Fault(field=f"{where}.producer", code="contradiction", message=message)


def _topic_faults(where: str, settings: OutboxSettings) -> Iterator[Fault]:
    if settings.order == "aggregate":
        message = "cannot be kept on a topic: one whose name ends with .fifo keeps the order of each user"
        yield Fault(field=f"{where}.order", code="contradiction", message=message)
    if settings.producer:
        message = f"is for rows that are accepted; those of {where} are published to a topic"
        yield Fault(field=f"{where}.producer", code="contradiction", message=message)
    if settings.types and settings.envelope == "fisa":
        message = "is for rows that are accepted; an envelope is published with the event_type that it has"
        yield Fault(field=f"{where}.types", code="contradiction", message=message)
