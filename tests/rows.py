"""Rows put straight into the tables, as the starting point of a test."""

import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from tocsin.domain.ids import LeaseId, new_lease_id, uuid7
from tocsin.store.deliveries.claim import START, ClaimedDelivery, Position, claim, take_over
from tocsin.store.health.provider_health import Counted
from tocsin.store.people.sent_counts import totals
from tocsin.store.pool import Connection, Pool

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
NEVER = datetime.max  # noqa: DTZ901 - what the driver has for `infinity`
"""The due time of what is held."""


async def insert(connection: Connection | Pool, table: str, row: dict[str, Any]) -> UUID:
    columns = ", ".join(row)
    places = ", ".join(f"${number}" for number in range(1, len(row) + 1))
    # The names come from this module's callers, never from outside.
    await connection.execute(f"insert into {table} ({columns}) values ({places})", *row.values())  # noqa: S608
    made: UUID = row["id"]
    return made


async def add_notification(connection: Connection | Pool, **changes: Any) -> UUID:
    made = uuid7()
    row = {
        "id": made,
        "producer": "shop",
        "idempotency_key": made.hex,
        "fingerprint": b"f",
        "type": "new_customer",
        "version": 2,
        "audience": "{}",
        "payload": '{"customer_name": "Ali Veli"}',
        "accepted_at": NOW,
    }
    return await insert(connection, "notifications", row | changes)


async def add_delivery(connection: Connection | Pool, user_id: str | None = "ada", **changes: Any) -> UUID:
    """Add a delivery of a notification of its own, unless one is named."""
    notification_id = changes.pop("notification_id", None) or await add_notification(connection)
    row = {
        "id": uuid7(),
        "notification_id": notification_id,
        "channel": "push",
        "lane": "fcm",
        "user_id": user_id,
        "state": "pending",
        "due_at": NOW,
        "created_at": NOW,
    }
    return await insert(connection, "deliveries", row | changes)


async def add_held(connection: Connection | Pool, held_by: str, **changes: Any) -> UUID:
    """Add a delivery that is held without a due time."""
    row: dict[str, Any] = {"state": "scheduled", "due_at": NEVER, "held_by": held_by}
    return await add_delivery(connection, **row | changes)


async def add_digest(connection: Connection | Pool, **changes: Any) -> UUID:
    row = {
        "id": uuid7(),
        "key": "push:user:ada:new_customer@2",
        "type": "new_customer",
        "version": 2,
        "opened_at": NOW,
    }
    return await insert(connection, "digests", row | changes)


async def add_carrier(connection: Connection | Pool, digest_id: UUID, **changes: Any) -> UUID:
    """Add a delivery that carries a digest and belongs to no notification."""
    row = {
        "id": uuid7(),
        "digest_id": digest_id,
        "channel": "push",
        "lane": "fcm",
        "user_id": "ada",
        "state": "scheduled",
        "due_at": NOW,
        "created_at": NOW,
    }
    return await insert(connection, "deliveries", row | changes)


async def add_device(connection: Connection | Pool, user_id: str = "ada", **changes: Any) -> UUID:
    made = uuid7()
    token = changes.pop("token", f"token-{made.hex}")
    row = {
        "id": made,
        "user_id": user_id,
        "provider": "fcm",
        "platform": "android",
        "token": token,
        "token_hash": hashlib.sha256(token.encode()).digest(),
        "registered_at": NOW,
        "last_seen_at": NOW,
    }
    return await insert(connection, "devices", row | changes)


async def add_user(connection: Connection | Pool, user_id: str, **known: Any) -> None:
    """Add a person's directory entry."""
    row = {"user_id": user_id, "updated_at": NOW} | known
    columns, places = ", ".join(row), ", ".join(f"${number}" for number in range(1, len(row) + 1))
    await connection.execute(f"insert into users ({columns}) values ({places})", *row.values())  # noqa: S608 - as above


async def add_outcomes(connection: Connection, counts: Mapping[Counted, int], at: datetime) -> None:
    """Add counts of outcomes to the minute of a moment; workers count in the minute in which they write."""
    await connection.executemany(
        """
        insert into provider_counts (minute, provider, outcome, code, count)
        values (date_trunc('minute', $1::timestamptz), $2, $3, $4, $5)
        """,
        [(at, *each, count) for each, count in counts.items()],
    )


async def add_waiting(
    connection: Connection | Pool, count: int, user_id: str = "ada", *, lane: str = "fcm", **changes: Any
) -> UUID:
    """Add many deliveries of one notification at once, due one microsecond after the other."""
    notification_id = await add_notification(connection)
    await connection.execute(
        """
        insert into deliveries (
            id, notification_id, channel, lane, user_id, state, due_at, created_at, held_by, ordering_key,
            collapse_key, accept_order
        )
        select
            id, $1, 'push', $2, $3, $4,
            coalesce($5, $6::timestamptz + number * interval '1 microsecond'), $6, $7,
            $8, $9, number
        from unnest($10::uuid[]) with ordinality as given (id, number)
        """,
        notification_id,
        lane,
        user_id,
        changes.get("state", "pending"),
        changes.get("due_at"),
        NOW,
        changes.get("held_by"),
        changes.get("ordering_key"),
        changes.get("collapse_key"),
        [uuid7() for _ in range(count)],
    )
    return notification_id


async def take(
    connection: Connection | Pool,
    *,
    now: datetime = NOW,
    until: datetime | None = None,
    after: Position = START,
    limit: int = 100,
    lease: LeaseId | None = None,
    lane: str = "fcm",
) -> list[ClaimedDelivery]:
    """Claim as a worker does; leases last until `until`, by default the end of the day."""
    return await claim(
        connection,
        lane,
        lease=lease or new_lease_id(),
        now=now,
        until=until or now.replace(hour=23),
        after=after,
        limit=limit,
    )


async def take_lost(
    connection: Connection | Pool,
    *,
    now: datetime,
    until: datetime | None = None,
    lease: LeaseId | None = None,
    lane: str = "fcm",
) -> ClaimedDelivery | None:
    """Take over a delivery with an expired lease as a worker does."""
    until = until or now.replace(hour=23)
    return await take_over(connection, lane, lease=lease or new_lease_id(), now=now, until=until)


async def delivery(connection: Connection | Pool, delivery_id: UUID) -> dict[str, Any]:
    return dict(await connection.fetchrow("select * from deliveries where id = $1", delivery_id))


async def got(connection: Connection | Pool, *device_ids: UUID) -> tuple[int, datetime | None]:
    """Return how many messages devices got, and when the last one was sent."""
    return await totals(connection, device_ids)


async def device(connection: Connection | Pool, device_id: UUID) -> dict[str, Any]:
    return dict(await connection.fetchrow("select * from devices where id = $1", device_id))
