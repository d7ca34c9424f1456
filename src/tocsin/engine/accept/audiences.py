"""Finds the people of an audience by attributes."""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TypeAlias

from tocsin.domain.faults import Fault
from tocsin.domain.intent import Intent, audience_faults
from tocsin.store.people.users import with_attributes
from tocsin.store.pool import Connection

Connect: TypeAlias = Callable[[], AbstractAsyncContextManager[Connection]]
"""Returns a connection for a short use: one of a pool, or the caller's own."""

_FIELD = "audience.attributes"


async def find_people(
    connect: Connect, intent: Intent, most: int, advice: str = ""
) -> tuple[Sequence[str], list[Fault]]:
    """Find the people whom an intent asks for by attributes; if nobody or more than `most`, return why not.

    Any other audience, and one that has faults, finds nobody and has none.
    """
    wanted = intent.audience.attributes
    if wanted is None or audience_faults(intent.audience):
        return (), []
    async with connect() as connection:
        people = await with_attributes(connection, wanted, most + 1, intent.org_id)
    if not people:
        whose = "directory" if intent.org_id is None else "organisation"
        message = f"finds nobody: no user of the {whose} has these attributes"
        return (), [Fault(field=_FIELD, code="nobody", message=message)]
    if len(people) > most:
        message = f"finds more than {most:,} people; {advice}"
        return (), [Fault(field=_FIELD, code="too_many", message=message)]
    return people, []
