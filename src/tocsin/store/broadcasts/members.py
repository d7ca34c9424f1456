"""The people of an audience, in the order of their user ids, a stretch at a time."""

from collections.abc import Mapping
from uuid import UUID

import msgspec

from tocsin.domain.people.attributes import AttributeValue
from tocsin.store.people.users import USE_BITMAPS
from tocsin.store.pool import Connection
from tocsin.store.rows import fetch_one

EXAMINED = 5_000
"""How many people a stretch looks at; few of them may be of the audience."""


class Members(msgspec.Struct, frozen=True, kw_only=True):
    """Which people to list: those of an upload of a segment, who have all the attributes, or everyone.

    With an `org_id`, only those who are in the organisation now.
    """

    segment_id: UUID | None = None
    attributes: Mapping[str, AttributeValue] | None = None
    org_id: str | None = None


class _Stretch(msgspec.Struct, frozen=True, kw_only=True):
    found: list[str]
    last: str | None
    examined: int


# By the primary key, so that a stretch costs the same wherever it is and however few of it are found: an
# index by attributes would have to find everybody each time to sort them.
_STRETCH = """
with stretch as materialized ({examined}),
found as (
    select user_id
    from stretch
    where {wanted}
    order by user_id
    limit $2
)
select
    array(select user_id from found order by user_id) as found,
    (select max(user_id) from stretch) as last,
    (select count(*) from stretch) as examined
"""

_DIRECTORY = """
    select user_id, attributes, org_id
    from users
    where user_id > $1
    order by user_id
    limit $3
"""

# Whoever registered a device can be reached, in the directory or not.
_REACHABLE = """
    select user_id
    from (
        (select user_id from users where user_id > $1 order by user_id limit $3)
        union
        (
            select distinct user_id
            from devices
            where user_id > $1 and retired_at is null
            order by user_id
            limit $3
        )
    ) as anybody
    order by user_id
    limit $3
"""

_SEGMENT = """
    select user_id
    from segment_members
    where segment_id = $4 and user_id > $1
    order by user_id
    limit $3
"""
_OF_ORG = "(select users.org_id from users where users.user_id = stretch.user_id) = $5"

NEXT_OF_EVERYONE = _STRETCH.format(examined=_REACHABLE, wanted="true")
NEXT_OF_ORGANISATION = _STRETCH.format(examined=_DIRECTORY, wanted="org_id = $4")
NEXT_WITH_ATTRIBUTES = _STRETCH.format(
    examined=_DIRECTORY, wanted="attributes @> $4::jsonb and ($5::text is null or org_id = $5)"
)
NEXT_OF_SEGMENT = _STRETCH.format(examined=_SEGMENT, wanted="true")
NEXT_OF_SEGMENT_WITHIN = _STRETCH.format(examined=_SEGMENT, wanted=_OF_ORG)

COUNT_EVERYONE = """
select
    (select count(*) from users)
    + (
        select count(distinct user_id)
        from devices
        where retired_at is null and not exists (select from users where users.user_id = devices.user_id)
    )
"""
COUNT_ORGANISATION = "select count(*) from users where org_id = $1"
COUNT_WITH_ATTRIBUTES = """
select count(*)
from users
where attributes @> $1::jsonb and ($2::text is null or org_id = $2)
"""
COUNT_SEGMENT = "select members from segments where id = $1"


class Stretch(msgspec.Struct, frozen=True):
    """The next people of an audience, the position after them, and whether they are the last."""

    people: list[str]
    position: str
    is_last: bool


async def next_members(
    connection: Connection, members: Members, after: str, limit: int, examined: int = EXAMINED
) -> Stretch:
    """List the next people after a user id, at most `limit`, of the next `examined`."""
    examined = max(examined, limit)
    given: tuple[object, ...]
    match members:
        case Members(segment_id=UUID() as segment_id, org_id=None):
            statement, given = NEXT_OF_SEGMENT, (segment_id,)
        case Members(segment_id=UUID() as segment_id, org_id=org_id):
            statement, given = NEXT_OF_SEGMENT_WITHIN, (segment_id, org_id)
        case Members(attributes=attributes, org_id=org_id) if attributes is not None:
            statement, given = NEXT_WITH_ATTRIBUTES, (_json(attributes), org_id)
        case Members(org_id=None):
            statement, given = NEXT_OF_EVERYONE, ()
        case Members(org_id=org_id):
            statement, given = NEXT_OF_ORGANISATION, (org_id,)
    row = await fetch_one(connection, _Stretch, statement, after, limit, examined, *given)
    if row is None or row.last is None:
        return Stretch([], after, is_last=True)
    if len(row.found) == limit:
        return Stretch(row.found, row.found[-1], is_last=False)
    return Stretch(row.found, row.last, is_last=row.examined < examined)


async def count_members(connection: Connection, members: Members) -> int:
    """Count the people of an audience as it is now; runs in a transaction."""
    given: tuple[object, ...]
    match members:
        case Members(segment_id=UUID() as segment_id):
            statement, given = COUNT_SEGMENT, (segment_id,)
        case Members(attributes=attributes, org_id=org_id) if attributes is not None:
            await connection.execute(USE_BITMAPS)
            statement, given = COUNT_WITH_ATTRIBUTES, (_json(attributes), org_id)
        case Members(org_id=None):
            statement, given = COUNT_EVERYONE, ()
        case Members(org_id=org_id):
            statement, given = COUNT_ORGANISATION, (org_id,)
    count: int | None = await connection.fetchval(statement, *given)
    return count or 0


def _json(attributes: Mapping[str, AttributeValue]) -> str:
    return msgspec.json.encode(attributes).decode()
