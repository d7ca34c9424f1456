"""Notifications: accepting them, finding them again."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec

from tocsin.domain.ids import NotificationId
from tocsin.domain.plan import PlannedDelivery
from tocsin.store.pool import Connection


class NewNotification(msgspec.Struct, frozen=True, kw_only=True):
    """An intent found good, with its deliveries."""

    id: NotificationId
    producer: str
    idempotency_key: str
    fingerprint: bytes
    type: str
    version: int
    audience: bytes
    payload: bytes
    collapse_key: str | None
    request_id: str | None
    trace_id: str | None
    occurred_at: datetime | None
    send_at: datetime | None
    send_at_local: datetime | None
    expires_at: datetime | None
    accepted_at: datetime
    deliveries: Sequence[PlannedDelivery]


class NotificationRow(msgspec.Struct, frozen=True, kw_only=True):
    """A notification as it is stored."""

    id: UUID
    producer: str
    idempotency_key: str
    type: str
    version: int
    audience: msgspec.Raw
    payload: msgspec.Raw
    collapse_key: str | None
    request_id: str | None
    trace_id: str | None
    occurred_at: datetime | None
    send_at: datetime | None
    send_at_local: datetime | None
    expires_at: datetime | None
    accepted_at: datetime
    cancelled_at: datetime | None


# One statement, so one round trip and one transaction of its own. Deliveries go in
# only for the notifications that were new; keys come sorted, so that two batches
# holding the same keys wait for each other instead of locking crosswise.
ACCEPT = """
with accepted as (
    insert into notifications (
        id, producer, idempotency_key, fingerprint, type, version, audience, payload, collapse_key,
        request_id, trace_id, occurred_at, send_at, expires_at, accepted_at, send_at_local
    )
    select *
    from unnest(
        $1::uuid[], $2::text[], $3::text[], $4::bytea[], $5::text[], $6::integer[], $7::jsonb[], $8::jsonb[],
        $9::text[], $10::text[], $11::text[], $12::timestamptz[], $13::timestamptz[], $14::timestamptz[],
        $15::timestamptz[], $25::timestamp[]
    )
    on conflict (producer, idempotency_key) do nothing
    returning id
),
planned as (
    insert into deliveries (
        id, notification_id, channel, user_id, address, state, reason, due_at, created_at, settled_at,
        ordering_key, collapse_key, digest_key, fallback_for
    )
    select
        given.id, given.notification_id, given.channel, given.user_id, given.address, given.state,
        given.reason, given.due_at, $23::timestamptz, case when given.state = 'skipped' then $23 end,
        given.ordering_key, given.collapse_key, given.digest_key, given.fallback_for
    from unnest(
        $16::uuid[], $17::uuid[], $18::text[], $19::text[], $20::text[], $21::text[], $22::text[],
        $24::timestamptz[], $26::text[], $27::text[], $28::text[], $29::text[]
    ) as given (
        id, notification_id, channel, user_id, address, state, reason, due_at, ordering_key, collapse_key,
        digest_key, fallback_for
    )
    where given.notification_id in (select id from accepted)
    returning state = 'pending' as due
),
woken as (
    select pg_notify(current_schema() || '_due', '')
    from (select from planned where due limit 1) as any_due
)
select accepted.id
from accepted
left join woken on true
"""

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

GET = """
select
    id, producer, idempotency_key, type, version, audience, payload, collapse_key, request_id, trace_id,
    occurred_at, send_at, send_at_local, expires_at, accepted_at, cancelled_at
from notifications
where id = $1
"""

LIST_RECENT = """
select
    id, producer, idempotency_key, type, version, audience, payload, collapse_key, request_id, trace_id,
    occurred_at, send_at, send_at_local, expires_at, accepted_at, cancelled_at
from notifications
where id < $1
order by id desc
limit $2
"""


async def accept(
    connection: Connection, notifications: Sequence[NewNotification], now: datetime
) -> set[UUID]:
    """Store the notifications whose keys are new, with their deliveries, and name them."""
    columns: list[Any] = [
        [getattr(notification, name) for notification in notifications]
        for name in (
            "id",
            "producer",
            "idempotency_key",
            "fingerprint",
            "type",
            "version",
        )
    ]
    columns += [
        [notification.audience.decode() for notification in notifications],
        [notification.payload.decode() for notification in notifications],
    ]
    columns += [
        [getattr(notification, name) for notification in notifications]
        for name in (
            "collapse_key",
            "request_id",
            "trace_id",
            "occurred_at",
            "send_at",
            "expires_at",
            "accepted_at",
        )
    ]
    planned = [
        (delivery, notification.id) for notification in notifications for delivery in notification.deliveries
    ]
    columns += [
        [delivery.id for delivery, _ in planned],
        [notification_id for _, notification_id in planned],
        [delivery.channel for delivery, _ in planned],
        [delivery.user_id for delivery, _ in planned],
        [delivery.address for delivery, _ in planned],
        [delivery.state for delivery, _ in planned],
        [delivery.reason for delivery, _ in planned],
        now,
        [delivery.due_at for delivery, _ in planned],
        [notification.send_at_local for notification in notifications],
        [delivery.ordering_key for delivery, _ in planned],
        [delivery.collapse_key for delivery, _ in planned],
        [delivery.digest_key for delivery, _ in planned],
        [delivery.fallback_for for delivery, _ in planned],
    ]
    rows = await connection.fetch(ACCEPT, *columns)
    return {row[0] for row in rows}


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


async def list_recent(connection: Connection, before: UUID, limit: int) -> list[NotificationRow]:
    """Read the notifications accepted last, newest first."""
    return [_row(row) for row in await connection.fetch(LIST_RECENT, before, limit)]


def _row(record: Any) -> NotificationRow:
    fields = dict(record)
    fields["audience"] = msgspec.Raw(record["audience"].encode())
    fields["payload"] = msgspec.Raw(record["payload"].encode())
    return NotificationRow(**fields)
