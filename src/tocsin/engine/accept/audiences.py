"""Finds the people of an audience that is a query over the directory, or a segment."""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TypeAlias
from uuid import UUID

import msgspec

from tocsin.domain.faults import Fault
from tocsin.domain.intent import Audience, Intent, audience_faults, audience_kind, is_query
from tocsin.store.broadcasts import segments
from tocsin.store.broadcasts.members import Members, next_members
from tocsin.store.people.users import with_attributes
from tocsin.store.pool import Connection

Connect: TypeAlias = Callable[[], AbstractAsyncContextManager[Connection]]
"""Returns a connection for a short use: one of a pool, or the caller's own."""


class FoundPeople(msgspec.Struct, frozen=True, kw_only=True):
    """Whom an audience finds: `people`, or if they are many the `members` to expand; or why nobody."""

    people: Sequence[str] = ()
    members: Members | None = None
    faults: Sequence[Fault] = ()


NOT_LOOKED_UP = FoundPeople()


def members_of(audience: Audience, org_id: str | None, segment_id: UUID | None) -> Members:
    """Return whom to list for an audience that is a query."""
    return Members(segment_id=segment_id, attributes=audience.attributes, org_id=org_id)


async def find_people(connect: Connect, intent: Intent, most: int) -> FoundPeople:
    """Find the people of an audience by attributes, at most `most`; of a larger one, its members.

    Everyone and a segment are never listed. Any other audience, and one that has faults, finds nobody.
    """
    audience = intent.audience
    if not is_query(audience) or audience_faults(audience):
        return NOT_LOOKED_UP
    async with connect() as connection:
        if audience.attributes is not None:
            people = await with_attributes(connection, audience.attributes, most + 1, intent.org_id)
            if 0 < len(people) <= most:
                return FoundPeople(people=people)
            members, found = members_of(audience, intent.org_id, None), bool(people)
        else:
            segment_id = None
            if audience.segment is not None:
                segment = await segments.find(connection, audience.segment, intent.org_id)
                if segment is None:
                    return _fault(audience, "unknown_segment", "there is no segment of this name")
                segment_id = segment.id
            members = members_of(audience, intent.org_id, segment_id)
            found = bool((await next_members(connection, members, "", 1)).people)
    if found:
        return FoundPeople(members=members)
    whose = "directory" if intent.org_id is None else "organisation"
    if audience.attributes is not None:
        return _fault(audience, "nobody", f"finds nobody: no user of the {whose} has these attributes")
    what = "segment" if audience.segment is not None else whose
    return _fault(audience, "nobody", f"finds nobody: the {what} has no users")


def _fault(audience: Audience, code: str, message: str) -> FoundPeople:
    return FoundPeople(
        faults=[Fault(field=f"audience.{audience_kind(audience)}", code=code, message=message)]
    )
