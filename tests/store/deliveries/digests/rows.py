"""Digests with their members and carriers, and the steps they go through."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from tests.rows import NOW, add_held, add_notification, delivery
from tocsin.domain.ids import new_delivery_id, uuid7
from tocsin.store.deliveries.digests import Members, NewMember, close, end, join
from tocsin.store.pool import Connection, Pool

LATER = NOW + timedelta(minutes=1)
KEY = "push:user:ada:new_customer@2"


async def add_joining(connection: Connection | Pool, key: str = KEY, **changes: Any) -> NewMember:
    """Add a delivery as it is accepted, and return what it joins its digest with."""
    made = await add_held(connection, "digest", lane="fanout")
    row: dict[str, Any] = {
        "delivery_id": made,
        "key": key,
        "type": "new_customer",
        "version": 2,
        "channel": "push",
        "user_id": "ada",
        "address": None,
        "lane": "fanout",
        "due_at": LATER,
        "digest_id": uuid7(),
        "carrier_id": new_delivery_id(),
    }
    return NewMember(**row | changes)


async def join_all(pool: Pool, members: Sequence[NewMember]) -> None:
    async with pool.acquire() as connection, connection.transaction():
        await join(connection, members, NOW)


async def close_one(pool: Pool, digest_id: UUID) -> Members | None:
    async with pool.acquire() as connection, connection.transaction():
        return (await close(connection, [digest_id], NOW)).get(digest_id)


async def end_one(pool: Pool, digest_id: UUID) -> None:
    async with pool.acquire() as connection, connection.transaction():
        await end(connection, [digest_id], NOW)


async def add_member(pool: Pool, digest_id: UUID, number: int = 0, **changes: Any) -> UUID:
    """Add a member; what its notification is like comes first."""
    own = {name: changes.pop(name) for name in ("cancelled_at", "expires_at", "version") if name in changes}
    notification_id = await add_notification(pool, payload=f'{{"number": {number}}}', **own)
    return await add_held(pool, "digest", notification_id=notification_id, digest_id=digest_id, **changes)


async def states(pool: Pool, *deliveries: UUID) -> list[tuple[str, str | None]]:
    rows = [await delivery(pool, each) for each in deliveries]
    return [(row["state"], row["reason"]) for row in rows]


async def state_of(pool: Pool, digest_id: UUID) -> str:
    state: str = await pool.fetchval("select state from digests where id = $1", digest_id)
    return state
