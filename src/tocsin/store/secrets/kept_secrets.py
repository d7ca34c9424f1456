"""Secrets that an installation generates and keeps, such as the key that signs Web Push."""

from collections.abc import Callable
from datetime import datetime, timedelta

import msgspec

from tocsin.store.pool import Connection, Pool
from tocsin.store.rows import fetch_all


class KeptVersion(msgspec.Struct, frozen=True):
    """One version of a secret; `is_active` once it has been stored for long enough to be used."""

    value: str
    is_active: bool

    def __repr__(self) -> str:
        """Show nothing of the secret."""
        return f"KeptVersion(is_active={self.is_active})"


FIND = """
select value
from kept_secrets
where name = $1
"""

# A second caller waits for the first and then reads the secret that it stored.
KEEP = """
insert into kept_secrets (name, value, created_at)
values ($1, $2, $3)
on conflict (name) do nothing
"""

# The first version has the bare name, the later ones have their own after a colon.
VERSIONS = """
select value, created_at <= clock_timestamp() - $2::interval as is_active
from kept_secrets
where name = $1 or starts_with(name, $1 || ':')
order by name = $1, created_at desc, name
"""

ADD_VERSION = """
insert into kept_secrets (name, value, created_at)
select $1::text || ':' || $2::text, $3, clock_timestamp()
where exists (select from kept_secrets where name = $1)
returning created_at
"""

DISCARD_VERSIONS = """
delete from kept_secrets
where starts_with(name, $1 || ':')
"""

REPLACE = """
update kept_secrets
set value = $2, created_at = clock_timestamp()
where name = $1
returning created_at
"""


async def find(connection: Connection, name: str) -> str | None:
    """Return a secret, or None if there is none yet."""
    value: str | None = await connection.fetchval(FIND, name)
    return value


async def get_or_make(connection: Connection, name: str, make: Callable[[], str], now: datetime) -> str:
    """Return a secret, generating and storing it if there is none; concurrent callers get the same one."""
    value = await find(connection, name)
    if value is not None:
        return value
    made = make()
    await connection.execute(KEEP, name, made, now)
    return await find(connection, name) or made


async def versions(connection: Connection | Pool, name: str, active_after: timedelta) -> list[KeptVersion]:
    """List the versions of a secret, newest first."""
    return await fetch_all(connection, KeptVersion, VERSIONS, name, active_after)


async def add_version(connection: Connection, name: str, version: str, value: str) -> datetime | None:
    """Store a further version of a secret and return when; None if there is no first one."""
    stored_at: datetime | None = await connection.fetchval(ADD_VERSION, name, version, value)
    return stored_at


async def replace_all(connection: Connection, name: str, value: str) -> datetime | None:
    """Replace all versions of a secret by one and return when; None if there is none."""
    await connection.execute(DISCARD_VERSIONS, name)
    stored_at: datetime | None = await connection.fetchval(REPLACE, name, value)
    return stored_at
