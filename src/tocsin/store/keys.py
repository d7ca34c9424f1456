"""API keys: who holds one and what they may do; only digests are stored."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

import msgspec

from tocsin.store.pool import Connection
from tocsin.store.rows import fetch_all, fetch_one

LONGEST_LIST = 1_000


class KeyRow(msgspec.Struct, frozen=True, kw_only=True):
    """An API key; `hint` is its last characters, by which people recognize it."""

    id: UUID
    producer: str
    role: str
    hint: str
    created_at: datetime
    last_used_at: datetime | None
    revoked_at: datetime | None


CREATE = """
insert into api_keys (id, producer, role, key_hash, hint, created_at)
values ($1, $2, $3, $4, $5, $6)
"""

LIVE = """
select id, producer, role, hint, created_at, last_used_at, revoked_at
from api_keys
where key_hash = $1 and revoked_at is null
"""

LIST = """
select id, producer, role, hint, created_at, last_used_at, revoked_at
from api_keys
order by id desc
limit $1
"""

REVOKE = """
update api_keys
set revoked_at = coalesce(revoked_at, $2)
where id = $1
returning id, producer, role, hint, created_at, last_used_at, revoked_at
"""

TOUCH = """
update api_keys
set last_used_at = $2
where id = any($1::uuid[]) and (last_used_at is null or last_used_at < $2)
"""


async def create(connection: Connection, key: KeyRow, key_hash: bytes) -> None:
    """Store a new key."""
    await connection.execute(CREATE, key.id, key.producer, key.role, key_hash, key.hint, key.created_at)


async def find_live(connection: Connection, key_hash: bytes) -> KeyRow | None:
    """Return the key with this digest, unless it was revoked."""
    return await fetch_one(connection, KeyRow, LIVE, key_hash)


async def list_all(connection: Connection) -> list[KeyRow]:
    """List the keys, newest first, including revoked ones."""
    return await fetch_all(connection, KeyRow, LIST, LONGEST_LIST)


async def revoke(connection: Connection, key_id: UUID, now: datetime) -> KeyRow | None:
    """Revoke a key; one that was revoked before keeps its time."""
    return await fetch_one(connection, KeyRow, REVOKE, key_id, now)


async def touch(connection: Connection, key_ids: Sequence[UUID], now: datetime) -> None:
    """Record that keys were used."""
    await connection.execute(TOUCH, key_ids, now)
