"""Sessions of the dashboard; only digests of their ids are stored."""

from datetime import timedelta
from uuid import UUID

import msgspec

from tocsin.store.pool import Connection, Pool
from tocsin.store.rows import fetch_one


class SessionKey(msgspec.Struct, frozen=True, kw_only=True):
    """The API key of a session."""

    key_id: UUID
    producer: str
    role: str
    org_id: str | None


# Those that have expired are deleted on the way.
OPEN = """
with expired as (
    delete from dashboard_sessions where expires_at <= clock_timestamp()
)
insert into dashboard_sessions (id_hash, key_id, created_at, expires_at)
values ($1, $2, clock_timestamp(), clock_timestamp() + $3::interval)
"""

# The conditions on the key are those of a call with the key itself.
LIVE = """
select session.key_id, key.producer, key.role, key.org_id
from dashboard_sessions as session
join api_keys as key on key.id = session.key_id
where session.id_hash = $1
    and session.expires_at > clock_timestamp()
    and key.revoked_at is null
    and (key.expires_at is null or key.expires_at > clock_timestamp())
"""

CLOSE = "delete from dashboard_sessions where id_hash = $1"

CLOSE_OF_KEY = "delete from dashboard_sessions where key_id = $1"


async def open_session(connection: Connection, id_hash: bytes, key_id: UUID, lasts: timedelta) -> None:
    """Store a new session of a key."""
    await connection.execute(OPEN, id_hash, key_id, lasts)


async def find_live(connection: Connection | Pool, id_hash: bytes) -> SessionKey | None:
    """Return the key of a session, unless one of them has ended."""
    return await fetch_one(connection, SessionKey, LIVE, id_hash)


async def close(connection: Connection | Pool, id_hash: bytes) -> None:
    """End a session."""
    await connection.execute(CLOSE, id_hash)


async def close_of_key(connection: Connection | Pool, key_id: UUID) -> int:
    """End every session of a key; return how many there were."""
    status: str = await connection.execute(CLOSE_OF_KEY, key_id)
    return int(status.rpartition(" ")[2])
