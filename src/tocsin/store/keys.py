"""API keys: who holds one and what they may do; only digests are stored."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

import msgspec

from tocsin.store.pool import Connection
from tocsin.store.rows import fetch_all, fetch_one

LONGEST_LIST = 1_000


class KeyRow(msgspec.Struct, frozen=True, kw_only=True):
    """An API key; `hint` is its last characters, by which people recognize it.

    A key that was rotated works until `expires_at`; `replaced_by` is the id of the new one. One with an
    `org_id` is bound to that organisation.
    """

    id: UUID
    producer: str
    role: str
    hint: str
    created_at: datetime
    last_used_at: datetime | None
    revoked_at: datetime | None
    expires_at: datetime | None = None
    replaced_by: UUID | None = None
    org_id: str | None = None


class LiveKey(msgspec.Struct, frozen=True, kw_only=True):
    """A key that works, and for how many more seconds if it was replaced."""

    id: UUID
    producer: str
    role: str
    seconds_left: float | None
    org_id: str | None = None


CREATE = """
insert into api_keys (id, producer, role, key_hash, hint, created_at, org_id)
values ($1, $2, $3, $4, $5, $6, $7)
"""

# Until the transaction ends, so that two organisations do not get the same producer at the same time.
LOCK_PRODUCER = "select pg_advisory_xact_lock(hashtextextended('producer:' || $1::text, 0))"

OTHER_ORG = """
select org_id
from api_keys
where producer = $1 and org_id <> $2
limit 1
"""

LIVE = """
select
    id, producer, role, extract(epoch from expires_at - clock_timestamp())::float8 as seconds_left, org_id
from api_keys
where key_hash = $1 and revoked_at is null and (expires_at is null or expires_at > clock_timestamp())
"""

LIST = """
select id, producer, role, hint, created_at, last_used_at, revoked_at, expires_at, replaced_by, org_id
from api_keys
order by id desc
limit $1
"""

# By id or by producer; two rotations at once take turns.
CURRENT = """
select id, producer, role, hint, created_at, last_used_at, revoked_at, expires_at, replaced_by, org_id
from api_keys
where (id = $1 or producer = $2) and revoked_at is null and replaced_by is null
order by id
limit $3
for update
"""

# A key and those that it replaced, which still work during their overlaps.
_LINE = """
with recursive line as (
    select id
    from api_keys
    where id = $1
    union
    select replaced.id
    from api_keys as replaced
    join line on replaced.replaced_by = line.id
)
"""

# Keys that were replaced earlier end with this one, or sooner. Without an overlap they are revoked, which
# processes of an older version heed too.
REPLACE = """
{line}
update api_keys
set replaced_by = case when id = $1 then $2 else replaced_by end,
    expires_at = least(expires_at, clock_timestamp() + $3::interval),
    revoked_at = coalesce(revoked_at, case when $3::interval = interval '0' then clock_timestamp() end)
where id in (select id from line)
returning id, producer, role, hint, created_at, last_used_at, revoked_at, expires_at, replaced_by, org_id
""".replace("{line}", _LINE)

REVOKE = """
{line}
update api_keys
set revoked_at = coalesce(revoked_at, $2)
where id in (select id from line)
returning id, producer, role, hint, created_at, last_used_at, revoked_at, expires_at, replaced_by, org_id
""".replace("{line}", _LINE)

TOUCH = """
update api_keys
set last_used_at = $2
where id = any($1::uuid[]) and (last_used_at is null or last_used_at < $2)
"""


async def create(connection: Connection, key: KeyRow, key_hash: bytes) -> None:
    """Store a new key."""
    await connection.execute(
        CREATE, key.id, key.producer, key.role, key_hash, key.hint, key.created_at, key.org_id
    )


async def other_org(connection: Connection, producer: str, org_id: str) -> str | None:
    """Return another organisation that a producer has or had a key of; keys of a producer take turns."""
    await connection.execute(LOCK_PRODUCER, producer)
    found: str | None = await connection.fetchval(OTHER_ORG, producer, org_id)
    return found


async def find_live(connection: Connection, key_hash: bytes) -> LiveKey | None:
    """Return the key with this digest, unless it was revoked or its overlap has ended."""
    return await fetch_one(connection, LiveKey, LIVE, key_hash)


async def list_all(connection: Connection) -> list[KeyRow]:
    """List the keys, newest first, including revoked ones."""
    return await fetch_all(connection, KeyRow, LIST, LONGEST_LIST)


async def lock_current(
    connection: Connection, key_id: UUID | None, producer: str, limit: int
) -> list[KeyRow]:
    """List and lock the keys with this id or of this producer that are neither revoked nor replaced."""
    return await fetch_all(connection, KeyRow, CURRENT, key_id, producer, limit)


async def replace(connection: Connection, key_id: UUID, successor: UUID, overlap: timedelta) -> KeyRow | None:
    """Replace a key by its successor; it expires after the overlap, by the database's clock.

    Those that it replaced expire no later.
    """
    rows = await fetch_all(connection, KeyRow, REPLACE, key_id, successor, overlap)
    return next((row for row in rows if row.id == key_id), None)


async def revoke(connection: Connection, key_id: UUID, now: datetime) -> KeyRow | None:
    """Revoke a key and those that it replaced; one that was revoked before keeps its time."""
    rows = await fetch_all(connection, KeyRow, REVOKE, key_id, now)
    return next((row for row in rows if row.id == key_id), None)


async def touch(connection: Connection, key_ids: Sequence[UUID], now: datetime) -> None:
    """Record that keys were used."""
    await connection.execute(TOUCH, key_ids, now)
