"""The directory of people: e-mail address, locale and time zone."""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from tocsin.store.pool import Connection
from tocsin.store.rows import fetch_one, transpose


class UserRow(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the directory."""

    user_id: str
    email: str | None
    locale: str | None
    timezone: str | None
    gmt_offset_seconds: int | None
    allowed_window: str | None = None
    updated_at: datetime


PUT = """
insert into users (user_id, email, locale, timezone, gmt_offset_seconds, allowed_window, updated_at)
select *
from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::integer[], $6::text[], $7::timestamptz[])
    as given (user_id)
order by given.user_id
on conflict (user_id) do update
set email = excluded.email,
    locale = excluded.locale,
    timezone = excluded.timezone,
    gmt_offset_seconds = excluded.gmt_offset_seconds,
    allowed_window = excluded.allowed_window,
    updated_at = excluded.updated_at
"""

GET = """
select user_id, email, locale, timezone, gmt_offset_seconds, allowed_window, updated_at
from users
where user_id = $1
"""


async def put(connection: Connection, users: Sequence[UserRow]) -> None:
    """Insert or replace people; each user id may occur only once."""
    await connection.execute(PUT, *transpose(users, UserRow.__struct_fields__))


async def get(connection: Connection, user_id: str) -> UserRow | None:
    """Load one person; None if unknown."""
    return await fetch_one(connection, UserRow, GET, user_id)
