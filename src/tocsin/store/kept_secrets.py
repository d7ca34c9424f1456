"""Secrets that an installation makes for itself and keeps, such as the key that signs Web Push."""

from collections.abc import Callable
from datetime import datetime

from tocsin.store.pool import Connection

FIND = """
select value
from kept_secrets
where name = $1
"""

# Whoever comes second waits for the first and then reads what it wrote.
KEEP = """
insert into kept_secrets (name, value, created_at)
values ($1, $2, $3)
on conflict (name) do nothing
"""


async def find(connection: Connection, name: str) -> str | None:
    """Read a secret, if it was made."""
    value: str | None = await connection.fetchval(FIND, name)
    return value


async def get_or_make(connection: Connection, name: str, make: Callable[[], str], now: datetime) -> str:
    """Read a secret, or make and keep it; all who ask, even at the same time, get the same one."""
    value = await find(connection, name)
    if value is not None:
        return value
    made = make()
    await connection.execute(KEEP, name, made, now)
    return await find(connection, name) or made
