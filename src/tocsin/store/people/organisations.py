"""Who belongs to which organisation."""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from tocsin.domain.people.attributes import AttributeValue
from tocsin.store.pool import Connection

# By the key alone: the organisation is compared afterwards, so that its index is no choice for the planner.
OUTSIDERS = """
select given.position
from unnest($1::text[], $2::text[]) with ordinality as given (org_id, user_id, position)
left join lateral (
    select users.org_id
    from users
    where users.user_id = given.user_id
    limit 1
) as person on true
where person.org_id is distinct from given.org_id
order by given.position
"""

# The limit keeps it a look-up for each address, whatever the size of the table when it was planned.
OUTSIDE_ADDRESSES = """
select given.position
from unnest($1::text[], $2::text[]) with ordinality as given (org_id, address, position)
left join lateral (
    select true as found
    from users
    where users.org_id = given.org_id and lower(users.email) = lower(given.address)
    limit 1
) as person on true
where person.found is null
order by given.position
"""

MEMBERSHIP = """
select org_id, attributes::text as attributes
from users
where user_id = $1
"""
MEMBERSHIP_LOCKED = f"{MEMBERSHIP}for update"

ADD = """
insert into users (user_id, updated_at)
values ($1, $2)
on conflict (user_id) do nothing
"""

CHANGE = """
update users
set org_id = $2, attributes = $3::jsonb, updated_at = $4
where user_id = $1
"""


class Membership(msgspec.Struct, frozen=True):
    """The organisation and the attributes of a person."""

    org_id: str | None
    attributes: dict[str, AttributeValue]


async def outsiders(connection: Connection, org_ids: Sequence[str], user_ids: Sequence[str]) -> set[int]:
    """Return the positions of users who are not in the organisation at the same position, or unknown."""
    return await _positions(connection, OUTSIDERS, org_ids, user_ids)


async def outside_addresses(
    connection: Connection, org_ids: Sequence[str], addresses: Sequence[str]
) -> set[int]:
    """Return the positions of addresses that nobody of the organisation at the same position has."""
    return await _positions(connection, OUTSIDE_ADDRESSES, org_ids, addresses)


async def is_member(connection: Connection, org_id: str, user_id: str) -> bool:
    """Return whether a person belongs to an organisation."""
    return not await outsiders(connection, [org_id], [user_id])


async def membership(connection: Connection, user_id: str, *, lock: bool = False) -> Membership | None:
    """Read the organisation and the attributes of a person; with `lock`, until the transaction ends."""
    row = await connection.fetchrow(MEMBERSHIP_LOCKED if lock else MEMBERSHIP, user_id)
    if row is None:
        return None
    return Membership(row["org_id"], msgspec.json.decode(row["attributes"]) if row["attributes"] else {})


async def change(connection: Connection, user_id: str, to: Membership, now: datetime) -> None:
    """Store the organisation and the attributes of a person who is in the directory."""
    attributes = msgspec.json.encode(to.attributes).decode() if to.attributes else None
    await connection.execute(CHANGE, user_id, to.org_id, attributes, now)


async def add(connection: Connection, user_id: str, now: datetime) -> None:
    """Add a person to the directory, unless they are there."""
    await connection.execute(ADD, user_id, now)


async def _positions(
    connection: Connection, statement: str, org_ids: Sequence[str], values: Sequence[str]
) -> set[int]:
    return {row["position"] - 1 for row in await connection.fetch(statement, org_ids, values)}
