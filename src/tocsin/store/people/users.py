"""The directory of people: e-mail address, locale, time zone and custom attributes."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from tocsin.domain.people.attributes import AttributeValue
from tocsin.store.pool import Connection
from tocsin.store.rows import transpose


class UserRow(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the directory."""

    user_id: str
    email: str | None
    locale: str | None
    timezone: str | None
    gmt_offset_seconds: int | None
    allowed_window: str | None = None
    updated_at: datetime
    attributes: dict[str, AttributeValue] = {}
    org_id: str | None = None


PUT = """
insert into users (
    user_id, email, locale, timezone, gmt_offset_seconds, allowed_window, updated_at, attributes, org_id
)
select
    given.user_id, given.email, given.locale, given.timezone, given.gmt_offset_seconds, given.allowed_window,
    given.updated_at, given.attributes::jsonb, given.org_id
from unnest(
    $1::text[], $2::text[], $3::text[], $4::text[], $5::integer[], $6::text[], $7::timestamptz[], $8::text[],
    $9::text[]
) as given (
    user_id, email, locale, timezone, gmt_offset_seconds, allowed_window, updated_at, attributes, org_id
)
order by given.user_id
on conflict (user_id) do update
set email = excluded.email,
    locale = excluded.locale,
    timezone = excluded.timezone,
    gmt_offset_seconds = excluded.gmt_offset_seconds,
    allowed_window = excluded.allowed_window,
    updated_at = excluded.updated_at,
    attributes = excluded.attributes,
    org_id = case when users.user_id = any($10::text[]) then users.org_id else excluded.org_id end
returning user_id, org_id
"""

# Whoever has a device, a webhook endpoint or preferences is somebody already: an organisation cannot claim
# them by their id alone.
PUT_WITHIN = PUT.replace(
    "order by given.user_id",
    """where coalesce(
    (select users.org_id = $10 from users where users.user_id = given.user_id limit 1),
    (select false from devices where devices.user_id = given.user_id limit 1),
    (select false from preferences where preferences.user_id = given.user_id limit 1),
    true
)
order by given.user_id""",
).replace(
    """case when users.user_id = any($10::text[]) then users.org_id else excluded.org_id end
returning""",
    """excluded.org_id
where users.org_id = $10
returning""",
)

# What another directory has of people; the rest of what is known of them stays.
# Whoever is known so already is left out first: a conflict would lock, and so write, their row. The limit
# keeps it a look-up for each, whatever the size of the table when it was planned.
REFRESH = """
insert into users (user_id, email, locale, updated_at)
select given.user_id, given.email, given.locale, $4::timestamptz
from unnest($1::text[], $2::text[], $3::text[]) as given (user_id, email, locale)
left join lateral (
    select true as same
    from users
    where users.user_id = given.user_id
        and (users.email, users.locale) is not distinct from (given.email, given.locale)
    limit 1
) as known on true
where known.same is null
order by given.user_id
on conflict (user_id) do update
set email = excluded.email, locale = excluded.locale, updated_at = excluded.updated_at
where (users.email, users.locale) is distinct from (excluded.email, excluded.locale)
"""

GET = """
select
    user_id, email, locale, timezone, gmt_offset_seconds, allowed_window, updated_at,
    attributes::text as attributes, org_id
from users
where user_id = $1
"""

# Materialized, so that the limit, unknown to a plan that is kept, does not make reading the table look cheap.
WITH_ATTRIBUTES = """
with found as materialized (
    select user_id
    from users
    where attributes @> $1::jsonb
)
select user_id
from found
limit $2
"""
WITH_ATTRIBUTES_WITHIN = WITH_ATTRIBUTES.replace(
    "where attributes @> $1::jsonb", "where attributes @> $1::jsonb and org_id = $3"
)
USE_BITMAPS = "set local enable_bitmapscan = on"


async def put(
    connection: Connection, users: Sequence[UserRow], *, unmoved: Sequence[str] = ()
) -> list[UserRow]:
    """Insert or replace people, and return them as stored; each user id may occur only once.

    Those whose ids are `unmoved` stay in the organisation where they are.
    """
    rows = await connection.fetch(PUT, *_columns(users), unmoved)
    org_ids = {row["user_id"]: row["org_id"] for row in rows}
    return [msgspec.structs.replace(user, org_id=org_ids[user.user_id]) for user in users]


async def put_within(connection: Connection, users: Sequence[UserRow], org_id: str) -> set[str]:
    """Insert or replace people of an organisation; return the ids of those who are not its, to be refused.

    Each has the organisation as `org_id`. Runs in a transaction, which ends without those who are returned.
    """
    rows = await connection.fetch(PUT_WITHIN, *_columns(users), org_id)
    return {user.user_id for user in users} - {row["user_id"] for row in rows}


def _columns(users: Sequence[UserRow]) -> list[list[Any]]:
    *columns, attributes, org_ids = transpose(users, UserRow.__struct_fields__)
    return [*columns, [_json(each) if each else None for each in attributes], org_ids]


async def get(connection: Connection, user_id: str) -> UserRow | None:
    """Load one person; None if unknown."""
    row = await connection.fetchrow(GET, user_id)
    if row is None:
        return None
    attributes = row["attributes"]
    return UserRow(**{**row, "attributes": msgspec.json.decode(attributes) if attributes else {}})


async def with_attributes(
    connection: Connection,
    attributes: Mapping[str, AttributeValue],
    limit: int,
    org_id: str | None = None,
) -> list[str]:
    """List the ids of people who have all of some attributes, at most `limit`, of an organisation or all."""
    # A GIN index is read by a bitmap alone, which the connections of a worker have switched off. Rolling back
    # restores that for the rest of the caller's transaction.
    transaction = connection.transaction()
    await transaction.start()
    try:
        await connection.execute(USE_BITMAPS)
        if org_id is None:
            rows = await connection.fetch(WITH_ATTRIBUTES, _json(attributes), limit)
        else:
            rows = await connection.fetch(WITH_ATTRIBUTES_WITHIN, _json(attributes), limit, org_id)
    finally:
        await transaction.rollback()
    return sorted(row["user_id"] for row in rows)


def _json(attributes: Mapping[str, AttributeValue]) -> str:
    return msgspec.json.encode(attributes).decode()


async def refresh(
    connection: Connection, people: Mapping[str, tuple[str | None, str | None]], now: datetime
) -> None:
    """Store the mail addresses and locales of people, by user id, where they changed."""
    known = list(people.values())
    await connection.execute(
        REFRESH, list(people), [email for email, _ in known], [locale for _, locale in known], now
    )
