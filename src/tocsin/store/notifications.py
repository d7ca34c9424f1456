"""Stores accepted notifications and reads them."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec

from tocsin.domain.ids import NotificationId
from tocsin.domain.plan import PlannedDelivery
from tocsin.store.broadcasts.broadcasts import NewBroadcast
from tocsin.store.pool import Connection
from tocsin.store.rows import columns_of, fetch_all, without_nulls


class _Notification(msgspec.Struct, frozen=True, kw_only=True):
    id: NotificationId
    producer: str
    idempotency_key: str
    type: str
    version: int
    collapse_key: str | None
    request_id: str | None
    trace_id: str | None
    occurred_at: datetime | None
    send_at: datetime | None
    send_at_local: datetime | None
    expires_at: datetime | None
    accepted_at: datetime
    locale: str | None = None
    org_id: str | None = None


class SummaryRow(msgspec.Struct, frozen=True, kw_only=True):
    """What a list shows of a notification."""

    id: NotificationId
    external_id: str | None
    org_id: str | None
    producer: str
    idempotency_key: str
    type: str
    version: int
    request_id: str | None
    trace_id: str | None
    send_at: datetime | None
    send_at_local: datetime | None
    expires_at: datetime | None
    accepted_at: datetime
    pruned_at: datetime | None


class NewNotification(_Notification, frozen=True, kw_only=True, gc=False):
    """A checked intent with its planned deliveries; those of a `broadcast` follow in chunks."""

    fingerprint: bytes
    external_id: str | None = None
    reference: str | None = None
    audience: bytes
    payload: bytes
    deliveries: Sequence[PlannedDelivery]
    broadcast: NewBroadcast | None = None


class NotificationRow(_Notification, frozen=True, kw_only=True):
    """A notification as it is stored."""

    external_id: str | None
    reference: str | None
    audience: msgspec.Raw
    payload: msgspec.Raw
    cancelled_at: datetime | None
    pruned_at: datetime | None


# A push to a person whose devices all have one provider starts in its lane.
# A column that has the same value in all rows is given as that value: its array is empty, and unnest fills it
# up with nulls.
_PLANNED = """
given as materialized (
    select
        given.id, given.notification_id, coalesce(given.channel, ${15}) as channel, given.user_id,
        given.address, coalesce(given.lane, ${16}) as lane, coalesce(given.state, ${17}) as state,
        given.reason, coalesce(given.due_at, ${18}) as due_at, given.held_by, given.ordering_key,
        given.collapse_key, given.fallback_for
    from unnest(
        ${0}::uuid[], ${1}::uuid[], ${2}::text[], ${3}::text[], ${4}::text[], ${5}::text[], ${6}::text[],
        ${7}::text[], ${8}::timestamptz[], ${9}::text[], ${10}::text[], ${11}::text[], ${12}::text[]
    ) as given (
        id, notification_id, channel, user_id, address, lane, state, reason, due_at, held_by, ordering_key,
        collapse_key, fallback_for
    )
    where {condition}
    -- The order of acceptance, which accept_order keeps.
    order by given.id
),
planned as (
    insert into deliveries (
        id, notification_id, channel, user_id, address, lane, state, reason, due_at, held_by, created_at,
        settled_at, ordering_key, collapse_key, fallback_for, accept_order
    )
    select
        given.id, given.notification_id, given.channel, given.user_id, given.address,
        case
            when given.lane = 'fanout' and given.channel = 'push' and given.user_id is not null
                and given.state <> 'skipped'
            then coalesce((
                select case when min(own.provider) = max(own.provider) then min(own.provider) end
                from (
                    select devices.provider
                    from devices
                    where devices.user_id = given.user_id
                        and devices.provider = any(${13}::text[])
                        and devices.retired_at is null
                        and devices.push_enabled
                    limit 100
                ) as own
            ), 'fanout')
            else given.lane
        end,
        given.state, given.reason,
        -- What is due now is due by the clock of the database, if that of the caller is ahead.
        case
            when given.held_by is not null then 'infinity'
            when given.state = 'pending' then least(given.due_at, clock_timestamp())
            else given.due_at
        end,
        given.held_by, ${14}::timestamptz, case when given.state = 'skipped' then ${14} end,
        given.ordering_key, given.collapse_key, given.fallback_for,
        case
            when given.ordering_key is not null or given.collapse_key is not null then nextval('accept_order')
        end
    from given
    returning lane, state = 'pending' as due
),
woken as (
    select pg_notify(current_schema() || '_due', string_agg(distinct lane, ','))
    from planned
    where due
    having count(*) > 0
)
"""


def _planned(first: int, constants: int, condition: str) -> str:
    """Return the part of a statement that stores deliveries, given by its parameters from `first` on.

    The values that columns have in all rows are its parameters from `constants` on.
    """
    return _PLANNED.format(*range(first, first + 15), *range(constants, constants + 4), condition=condition)


# One statement, so one round trip and one transaction of its own. Deliveries are inserted
# only for the notifications that were new. Keys come sorted, to avoid deadlocks between two batches
# that hold the same keys. `is true` keeps the condition on them a subplan, which is hashed: as a join it
# would be quadratic on the connection of a worker, which may not hash joins.
ACCEPT = """
with accepted as (
    insert into notifications (
        id, producer, idempotency_key, type, version, collapse_key, request_id, trace_id, occurred_at,
        send_at, send_at_local, expires_at, accepted_at, locale, fingerprint, external_id, reference,
        audience, payload, org_id
    )
    select
        id, coalesce(producer, $40), idempotency_key, coalesce(type, $41), coalesce(version, $42),
        collapse_key, request_id, trace_id, occurred_at, send_at, send_at_local, coalesce(expires_at, $43),
        coalesce(accepted_at, $44), locale, fingerprint, external_id, reference, audience, payload, org_id
    from unnest(
        $1::uuid[], $2::text[], $3::text[], $4::text[], $5::integer[], $6::text[], $7::text[], $8::text[],
        $9::timestamptz[], $10::timestamptz[], $11::timestamp[], $12::timestamptz[], $13::timestamptz[],
        $14::text[], $15::bytea[], $16::text[], $17::text[], $18::jsonb[], $19::jsonb[], $35::text[]
    ) as given (
        id, producer, idempotency_key, type, version, collapse_key, request_id, trace_id, occurred_at,
        send_at, send_at_local, expires_at, accepted_at, locale, fingerprint, external_id, reference,
        audience, payload, org_id
    )
    on conflict (producer, idempotency_key) do nothing
    returning id
),
{planned}
-- Most often all: then there is nothing to list.
select case when count(*) < cardinality($1::uuid[]) then coalesce(array_agg(accepted.id), '{}') end
from accepted
left join woken on true
""".replace("{planned}", _planned(20, 36, "(given.notification_id in (select id from accepted)) is true"))

# For a notification that is there already.
ADD_DELIVERIES = f"""
with {_planned(1, 16, "true")}
select count(*)
from woken
"""  # noqa: S608 - made of constants

# In the order of the parameters of ACCEPT.
_NOTIFICATION_COLUMNS = [
    name
    for name in NewNotification.__struct_fields__
    if name not in {"org_id", "audience", "payload", "deliveries", "broadcast"}
]
_DELIVERY_COLUMNS = [name for name in PlannedDelivery.__struct_fields__ if name not in {"id", "digest_key"}]
# Usually the same in all rows of a write. The driver takes as long for each as for a value of its own.
_CONSTANT_NOTIFICATION_COLUMNS = ("producer", "type", "version", "expires_at", "accepted_at")
_CONSTANT_DELIVERY_COLUMNS = ("channel", "lane", "state", "due_at")

EXISTING = """
select given.position, holder.id, holder.fingerprint
from unnest($1::text[], $2::text[]) with ordinality as given (producer, idempotency_key, position)
cross join lateral (
    select id, fingerprint
    from notifications
    where producer = given.producer and idempotency_key = given.idempotency_key
    -- The limit keeps it a look-up for each key, whatever the size of the table when it was planned.
    limit 1
) as holder
"""

_COLUMNS = ", ".join(NotificationRow.__struct_fields__)

GET = """
select {columns}
from notifications
where id = $1
""".replace("{columns}", _COLUMNS)

OF_EXTERNAL_ID = """
select id
from notifications
where external_id = $1
    and ($2::text is null or producer = $2)
    and ($4::text is null or org_id = $4)
order by id desc
limit $3
"""

SUMMARIES = """
select {columns}
from notifications
where id = any($1::uuid[])
order by id desc
""".replace("{columns}", ", ".join(SummaryRow.__struct_fields__))


async def accept(
    connection: Connection,
    notifications: Sequence[NewNotification],
    push_providers: Sequence[str],
    now: datetime,
) -> set[UUID]:
    """Store the notifications whose keys are new, with their deliveries, and return their ids."""
    given = columns_of(NewNotification, notifications)
    constants = [_constant(given, name) for name in _CONSTANT_NOTIFICATION_COLUMNS]
    columns = [without_nulls(given[name]) for name in _NOTIFICATION_COLUMNS]
    json = [list(map(bytes.decode, given[name])) for name in ("audience", "payload")]
    planned = [delivery for notification in notifications for delivery in notification.deliveries]
    owners = [notification.id for notification in notifications for _ in notification.deliveries]
    deliveries, of_deliveries = _delivery_columns(planned, owners)
    orgs = without_nulls(given["org_id"])
    some: Sequence[UUID] | None = await connection.fetchval(
        ACCEPT, *columns, *json, *deliveries, push_providers, now, orgs, *of_deliveries, *constants
    )
    return set(given["id"] if some is None else some)


async def add_deliveries(
    connection: Connection,
    notification_id: UUID,
    planned: Sequence[PlannedDelivery],
    push_providers: Sequence[str],
    now: datetime,
) -> None:
    """Store more deliveries of a notification."""
    columns, constants = _delivery_columns(planned, [notification_id] * len(planned))
    await connection.execute(ADD_DELIVERIES, *columns, push_providers, now, *constants)


def _delivery_columns(
    planned: Sequence[PlannedDelivery], owners: Sequence[NotificationId | UUID]
) -> tuple[list[Sequence[Any]], list[Any]]:
    given = columns_of(PlannedDelivery, planned)
    constants = [_constant(given, name) for name in _CONSTANT_DELIVERY_COLUMNS]
    columns = [given["id"], owners, *(without_nulls(given[name]) for name in _DELIVERY_COLUMNS)]
    return columns, constants


def _constant(given: dict[str, Sequence[Any]], name: str) -> Any:
    """Return the value of a column that has the same in all rows, and empty the column; otherwise None."""
    column = given[name]
    if not column or column.count(column[0]) < len(column):
        return None
    given[name] = ()
    return column[0]


async def existing(
    connection: Connection, keys: Sequence[tuple[str, str]]
) -> dict[int, tuple[NotificationId, bytes]]:
    """Find the notifications that already hold these (producer, key) pairs, by position."""
    rows = await connection.fetch(EXISTING, [producer for producer, _ in keys], [key for _, key in keys])
    return {row["position"] - 1: (NotificationId(row["id"]), bytes(row["fingerprint"])) for row in rows}


async def get(connection: Connection, notification_id: UUID) -> NotificationRow | None:
    """Read one notification."""
    row = await connection.fetchrow(GET, notification_id)
    return _row(row) if row else None


async def of_external_id(
    connection: Connection, external_id: str, producer: str | None, org_id: str | None, most: int
) -> list[UUID]:
    """List the newest notifications that a source knows by this id, of a producer, an organisation or all."""
    rows = await connection.fetch(OF_EXTERNAL_ID, external_id, producer, most, org_id)
    return [row["id"] for row in rows]


async def summaries(connection: Connection, ids: Sequence[UUID]) -> list[SummaryRow]:
    """Read notifications without audience and payload, newest first."""
    return await fetch_all(connection, SummaryRow, SUMMARIES, ids)


def _row(record: Any) -> NotificationRow:
    fields = dict(record)
    fields["audience"] = msgspec.Raw(record["audience"].encode())
    fields["payload"] = msgspec.Raw(record["payload"].encode())
    return NotificationRow(**fields)
