"""Holds intents to an organisation: its recipients are people of it, or nothing is sent.

Who belongs to an organisation is decided when an intent is accepted. A person who is moved to another one
while a message waits still gets it.
"""

from collections.abc import Iterable, Sequence

import msgspec

from tocsin.domain.faults import Fault
from tocsin.domain.intent import Intent, audience_kind, is_query
from tocsin.domain.people.organisations import NOT_YOURS
from tocsin.engine.accept.answers import Unreadable, written_intent
from tocsin.engine.accept.audiences import Connect
from tocsin.store.people.organisations import outside_addresses, outsiders

LISTED = 5
"""How many of the recipients that are refused a fault lists."""

_UNCHECKED = "cannot be checked to be people of an organisation; list users or emails, or ask for attributes"


def bind(intent: Intent | Unreadable, org_id: str) -> Intent | Unreadable:
    """Return an intent as one of an organisation; one that names another is refused."""
    if isinstance(intent, Intent) and intent.org_id not in {None, org_id}:
        message = "is not the organisation of whoever hands it in"
        return Unreadable(
            faults=[Fault(field="org_id", code=NOT_YOURS, message=message)],
            content=written_intent(intent),
            type=intent.type,
            idempotency_key=intent.idempotency_key,
            org_id=org_id,
        )
    return msgspec.structs.replace(intent, org_id=org_id)


def bind_all(intents: Sequence[Intent | Unreadable], org_id: str | None) -> Sequence[Intent | Unreadable]:
    """Return intents as those of an organisation, or as they are if there is none."""
    return intents if org_id is None else [bind(intent, org_id) for intent in intents]


async def outsider_faults(connect: Connect, intents: Iterable[Intent]) -> list[list[Fault]]:
    """List, for each valid intent, what is wrong with its recipients by its organisation.

    People who are unknown and people of another organisation are not told apart. Those of a query or a
    segment are looked for in the organisation alone.
    """
    asked = [(intent, audience_kind(intent.audience)) for intent in intents]
    # By the kind of the audience, so that each is one query for all intents.
    given: dict[str, list[tuple[int, str, str]]] = {"users": [], "emails": []}
    for number, (intent, kind) in enumerate(asked):
        if kind in given and intent.org_id is not None:
            values = intent.audience.users if kind == "users" else intent.audience.emails
            given[kind] += [(number, intent.org_id, each) for each in dict.fromkeys(map(str, values or ()))]
    refused: list[list[str]] = [[] for _ in asked]
    for kind, find in (("users", outsiders), ("emails", outside_addresses)):
        if rows := given[kind]:
            async with connect() as connection:
                found = await find(connection, [row[1] for row in rows], [row[2] for row in rows])
            for position in sorted(found):
                number, _, value = rows[position]
                refused[number].append(value)
    return [_faults(*each, outside) for each, outside in zip(asked, refused, strict=True)]


def _faults(intent: Intent, kind: str, outside: Sequence[str]) -> list[Fault]:
    field = f"audience.{kind}"
    if intent.org_id is None or is_query(intent.audience):
        return []
    if kind not in {"users", "emails"}:
        return [Fault(field=field, code=NOT_YOURS, message=_UNCHECKED)]
    if not outside:
        return []
    # Addresses are not listed: faults are logged.
    message = outsiders_message(outside, listed=LISTED if kind == "users" else 0)
    return [Fault(field=field, code=NOT_YOURS, message=message)]


def outsiders_message(outside: Sequence[str], *, listed: int = LISTED) -> str:
    """Write how many recipients are refused, and list the first of them."""
    message = f"has {len(outside):,} who are not people of the organisation"
    if not listed:
        return message
    more = " and more" if len(outside) > listed else ""
    return f"{message}: {', '.join(outside[:listed])}{more}"
