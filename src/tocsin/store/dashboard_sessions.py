"""Sessions of the dashboard; only digests of their ids are stored."""

from datetime import datetime, timedelta
from uuid import UUID

import msgspec

from tocsin.store.pool import Connection, Pool
from tocsin.store.rows import fetch_all, fetch_one


class SessionOwner(msgspec.Struct, frozen=True, kw_only=True):
    """Whose session it is: an API key with its `producer`, or the `subject` of an issuer with its `name`.

    `role` is that of the key, or the one that a person had when they signed in, for the `role_values` of the
    claim `role_claim`.
    """

    role: str
    key_id: UUID | None = None
    producer: str | None = None
    issuer: str | None = None
    subject: str | None = None
    name: str | None = None
    role_claim: str | None = None
    role_values: list[str] | None = None
    org_id: str | None = None


class SessionRow(SessionOwner, frozen=True, kw_only=True):
    """A session in a list; `hint` is how its key ends."""

    id_hash: bytes
    hint: str | None
    created_at: datetime
    expires_at: datetime


# Those that have expired are deleted on the way.
OPEN = """
with expired as (
    delete from dashboard_sessions where expires_at <= clock_timestamp()
)
insert into dashboard_sessions
    (id_hash, key_id, issuer, subject, name, role, role_claim, role_values, org_id, created_at, expires_at)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, clock_timestamp(), clock_timestamp() + $10::interval)
"""

_OWNER = """session.key_id,
    key.producer,
    coalesce(key.role, session.role) as role,
    session.issuer,
    session.subject,
    session.name,
    session.role_claim,
    session.role_values,
    case when session.key_id is null then session.org_id else key.org_id end as org_id"""

# The conditions on the key are those of a call with the key itself.
_LIVE = """session.expires_at > clock_timestamp()
    and (
        session.key_id is null
        or key.revoked_at is null and (key.expires_at is null or key.expires_at > clock_timestamp())
    )"""

LIVE = f"""
select {_OWNER}
from dashboard_sessions as session
left join api_keys as key on key.id = session.key_id
where session.id_hash = $1
    and {_LIVE}
"""  # noqa: S608 - made of constants

LIST = f"""
select session.id_hash, session.created_at, session.expires_at, key.hint, {_OWNER}
from dashboard_sessions as session
left join api_keys as key on key.id = session.key_id
where {_LIVE}
order by session.expires_at desc, session.id_hash
limit $1
"""  # noqa: S608 - made of constants

LIST_OF_OWNER = f"""
select session.id_hash, session.created_at, session.expires_at, key.hint, {_OWNER}
from dashboard_sessions as session
left join api_keys as key on key.id = session.key_id
where (session.key_id = $1 or session.issuer = $2 and session.subject = $3)
    and {_LIVE}
order by session.expires_at desc, session.id_hash
limit $4
"""  # noqa: S608 - made of constants

CLOSE = "delete from dashboard_sessions where id_hash = $1"

CLOSE_OF_OWNER = """
delete from dashboard_sessions
where (key_id = $1 or issuer = $2 and subject = $3) and id_hash is distinct from $4
"""

CLOSE_ALL = "delete from dashboard_sessions where id_hash is distinct from $1"


async def open_session(connection: Connection, id_hash: bytes, owner: SessionOwner, lasts: timedelta) -> None:
    """Store a new session; the role and organisation of a key are read from the key itself."""
    of_person = owner.key_id is None
    await connection.execute(
        OPEN,
        id_hash,
        owner.key_id,
        owner.issuer,
        owner.subject,
        owner.name,
        owner.role if of_person else None,
        owner.role_claim,
        owner.role_values,
        owner.org_id if of_person else None,
        lasts,
    )


async def find_live(connection: Connection | Pool, id_hash: bytes) -> SessionOwner | None:
    """Return the owner of a session, unless it or its key has ended."""
    return await fetch_one(connection, SessionOwner, LIVE, id_hash)


async def list_live(
    connection: Connection | Pool, owner: SessionOwner | None, limit: int
) -> list[SessionRow]:
    """List the sessions of an owner, or all, those that end last first."""
    if owner is None:
        return await fetch_all(connection, SessionRow, LIST, limit)
    of_owner = owner.key_id, owner.issuer, owner.subject
    return await fetch_all(connection, SessionRow, LIST_OF_OWNER, *of_owner, limit)


async def close(connection: Connection | Pool, id_hash: bytes) -> bool:
    """End a session; return whether there was one."""
    return _count(await connection.execute(CLOSE, id_hash)) > 0


async def close_of_owner(
    connection: Connection | Pool, owner: SessionOwner, *, but: bytes | None = None
) -> int:
    """End every session of an owner, `but` one; return how many there were."""
    of_owner = owner.key_id, owner.issuer, owner.subject
    return _count(await connection.execute(CLOSE_OF_OWNER, *of_owner, but))


async def close_all(connection: Connection | Pool, *, but: bytes) -> int:
    """End every session of everybody, `but` one; return how many there were."""
    return _count(await connection.execute(CLOSE_ALL, but))


def _count(status: str) -> int:
    return int(status.rpartition(" ")[2])
