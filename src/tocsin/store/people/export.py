"""Reads everything that is stored about a person, page by page."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec

from tocsin.store.inbox.items import COLUMNS as INBOX_COLUMNS
from tocsin.store.inbox.items import ItemRow
from tocsin.store.people.devices import OF_USER as DEVICES_OF_USER
from tocsin.store.people.devices import DeviceRow
from tocsin.store.people.endpoints.webhook import OF_USER as ENDPOINTS_OF_USER
from tocsin.store.people.endpoints.webhook import CountedEndpoint
from tocsin.store.people.erasure import ONLY_OF_ORG
from tocsin.store.people.sent_counts import add_sent
from tocsin.store.pool import Connection
from tocsin.store.rows import fetch_all

PAGE_SIZE = 200
MOST_DEVICES = 100_000
START = UUID(int=0)

# Notifications of the person, by user id or by their address, each once and oldest first.
NOTIFICATION_IDS = """
select notification_id
from (
    (
        select notification_id
        from deliveries
        where user_id = $1 and notification_id > $3
        order by user_id, notification_id
        limit $4
    )
    union
    (
        select notification_id
        from deliveries
        where address is not null
            and address <> 'erased'
            and address = $2
            and user_id is null
            and notification_id > $3
        order by address, notification_id
        limit $4
    )
) as own
order by notification_id
limit $4
"""

NOTIFICATIONS = """
select
    id, producer, idempotency_key, type, version, payload::text as payload, collapse_key, request_id,
    trace_id, reference, locale, org_id, occurred_at, send_at, expires_at, accepted_at, cancelled_at
from notifications
where id = any($1::uuid[])
order by id
"""

_DELIVERY = """
    id, notification_id, digest_id, channel, address, device_id, state, reason, attempts,
    nullif(due_at, 'infinity') as due_at, provider, provider_message_id, last_error_code, last_error,
    coalesce(decisions_of(decisions, decision_set, decided_at), '[]')::text as decisions,
    created_at, settled_at,
    (select delivered_at from receipts where delivery_id = id) as delivered_at,
    (select opened_at from receipts where delivery_id = id) as opened_at,
    (select dismissed_at from receipts where delivery_id = id) as dismissed_at
"""

DELIVERIES = f"""
select {_DELIVERY}
from deliveries
where notification_id = any($1::uuid[])
    and (user_id = $2 or (user_id is null and address = $3))
order by notification_id, id
"""  # noqa: S608 - made of constants

# The deliveries that carried a digest have no notification. In the order of the index of a person.
CARRIERS = f"""
select {_DELIVERY}
from (
    select *
    from deliveries
    where user_id = $1 and notification_id is null
    order by user_id, notification_id
    limit 100000
) as carriers
where id > $2
order by id
limit $3
"""  # noqa: S608 - made of constants

CARRIERS_WITHIN = CARRIERS.replace(
    "where id > $2", f"where id > $2 and {ONLY_OF_ORG.format(digest='carriers.digest_id', org_id='$4')}"
)

ATTEMPTS = """
select delivery_id, outcome, code, detail, at
from attempts
where delivery_id = any($1::uuid[])
order by id
"""

COUNTERS = """
select key, window_ends_at, used
from limit_counters
where key = any($1::text[])
order by key, window_ends_at
"""

INBOX = f"""
select {INBOX_COLUMNS}
from inbox_items
where user_id = $1 and id > $2 and ($4::text is null or org_id = $4)
order by user_id, id
limit $3
"""  # noqa: S608 - made of constants

REGISTRATIONS = """
select window_started_at, registrations
from registration_rates
where user_id = $1
"""

SUPPRESSION = """
select reason, suppressed_at
from suppressed_addresses
where address = any(suppression_keys($1))
limit 1
"""


class ExportedNotification(msgspec.Struct, frozen=True, kw_only=True):
    """A notification that a person got, without the other recipients."""

    id: UUID
    producer: str
    idempotency_key: str
    type: str
    version: int
    payload: msgspec.Raw
    collapse_key: str | None
    request_id: str | None
    trace_id: str | None
    reference: str | None
    locale: str | None
    org_id: str | None
    occurred_at: datetime | None
    send_at: datetime | None
    expires_at: datetime | None
    accepted_at: datetime
    cancelled_at: datetime | None


class ExportedDelivery(msgspec.Struct, frozen=True, kw_only=True):
    """A delivery to a person, or to their address."""

    id: UUID
    notification_id: UUID | None
    digest_id: UUID | None
    channel: str
    address: str | None
    device_id: UUID | None
    state: str
    reason: str | None
    attempts: int
    due_at: datetime | None
    provider: str | None
    provider_message_id: str | None
    last_error_code: str | None
    last_error: str | None
    decisions: msgspec.Raw
    created_at: datetime
    settled_at: datetime | None
    delivered_at: datetime | None
    opened_at: datetime | None
    dismissed_at: datetime | None


class ExportedAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """A failed attempt of a delivery."""

    delivery_id: UUID
    outcome: str
    code: str
    detail: str
    at: datetime


async def notification_ids(
    connection: Connection, user_id: str, address: str | None, after: UUID
) -> list[UUID]:
    """List the notifications of a person after an id, oldest first."""
    rows = await connection.fetch(NOTIFICATION_IDS, user_id, address, after, PAGE_SIZE)
    return [row["notification_id"] for row in rows]


async def notifications(connection: Connection, ids: Sequence[UUID]) -> list[ExportedNotification]:
    """Read notifications by their ids, oldest first."""
    rows = await connection.fetch(NOTIFICATIONS, ids)
    return [ExportedNotification(**{**row, "payload": _raw(row["payload"])}) for row in rows]


async def deliveries(
    connection: Connection, ids: Sequence[UUID], user_id: str, address: str | None
) -> list[ExportedDelivery]:
    """Read the person's own deliveries of notifications."""
    return _deliveries(await connection.fetch(DELIVERIES, ids, user_id, address))


async def carriers(
    connection: Connection, user_id: str, after: UUID, org_id: str | None = None
) -> list[ExportedDelivery]:
    """Read the deliveries that carried digests to the person, after an id, of an organisation or all."""
    if org_id is None:
        return _deliveries(await connection.fetch(CARRIERS, user_id, after, PAGE_SIZE))
    return _deliveries(await connection.fetch(CARRIERS_WITHIN, user_id, after, PAGE_SIZE, org_id))


async def attempts(connection: Connection, ids: Sequence[UUID]) -> list[ExportedAttempt]:
    """Read the failed attempts of deliveries."""
    return await fetch_all(connection, ExportedAttempt, ATTEMPTS, ids)


async def devices(connection: Connection, user_id: str) -> list[DeviceRow]:
    """Read all devices of a person, without their tokens."""
    rows = await fetch_all(connection, DeviceRow, DEVICES_OF_USER, user_id, MOST_DEVICES)
    return await add_sent(connection, rows)


async def endpoints(connection: Connection, user_id: str) -> list[CountedEndpoint]:
    """Read all webhook endpoints of a person, without their secrets."""
    rows = await fetch_all(connection, CountedEndpoint, ENDPOINTS_OF_USER, user_id, MOST_DEVICES)
    return await add_sent(connection, rows)


async def counters(connection: Connection, keys: Sequence[str]) -> list[dict[str, Any]]:
    """Read what was counted of a person or device."""
    return [dict(row) for row in await connection.fetch(COUNTERS, keys)]


async def inbox(
    connection: Connection, user_id: str, after: UUID, org_id: str | None = None
) -> list[ItemRow]:
    """Read items of the person's inbox after an id, of an organisation or all."""
    return await fetch_all(connection, ItemRow, INBOX, user_id, after, PAGE_SIZE, org_id)


async def registrations(connection: Connection, user_id: str) -> dict[str, Any] | None:
    """Read how often the person registered a device lately."""
    row = await connection.fetchrow(REGISTRATIONS, user_id)
    return dict(row) if row else None


async def suppression(connection: Connection, address: str) -> dict[str, Any] | None:
    """Read why the person's address gets no mail."""
    row = await connection.fetchrow(SUPPRESSION, address)
    return dict(row) if row else None


def _deliveries(rows: Sequence[Any]) -> list[ExportedDelivery]:
    return [ExportedDelivery(**{**row, "decisions": _raw(row["decisions"])}) for row in rows]


def _raw(text: str) -> msgspec.Raw:
    return msgspec.Raw(text.encode())
