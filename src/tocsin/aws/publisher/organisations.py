"""Holds envelopes to their organisation: their recipients are people of it, or nothing is published."""

from collections.abc import Sequence

from tocsin.aws.publisher.round import OpenRow
from tocsin.domain.faults import Fault
from tocsin.domain.people.organisations import NOT_YOURS
from tocsin.engine.accept.organisations import outsiders_message
from tocsin.store.people.organisations import outsiders
from tocsin.store.pool import Pool

FIELD = "recipients"
_NOBODY = "must be listed: nobody else can be checked to be a person of the organisation"


async def outsider_faults(pool: Pool, rows: Sequence[OpenRow]) -> list[Fault | None]:
    """Return for each row what is wrong, by its organisation, with the recipients that it waits for.

    Those whom it was published to before were checked then.
    """
    asked: list[tuple[int, str, str]] = []
    faults: list[Fault | None] = [None] * len(rows)
    for number, row in enumerate(rows):
        if row.envelope.org_id is None:
            continue
        org_id = str(row.envelope.org_id)
        for group in row.waiting:
            if group.user is None:
                faults[number] = Fault(field=FIELD, code=NOT_YOURS, message=_NOBODY)
            else:
                asked.append((number, org_id, group.user))
    if not asked:
        return faults
    async with pool.acquire() as connection:
        found = await outsiders(connection, [each[1] for each in asked], [each[2] for each in asked])
    outside: dict[int, list[str]] = {}
    for position in sorted(found):
        number, _, user = asked[position]
        outside.setdefault(number, []).append(user)
    for number, users in outside.items():
        faults[number] = Fault(field=FIELD, code=NOT_YOURS, message=outsiders_message(users))
    return faults
