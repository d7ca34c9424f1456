"""Secrets that an installation generates and keeps, such as the key that signs Web Push."""

from collections.abc import Callable
from datetime import datetime

from tocsin.store.pool import Connection

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
