"""The devices whose token is the ARN of an endpoint at SNS, for functions that deliver by themselves."""

from collections.abc import Callable, Sequence
from datetime import datetime
from uuid import UUID

import msgspec

from tocsin.domain.people.devices import token_hash
from tocsin.domain.people.preferences import Choice, allows
from tocsin.store.people.organisations import outsiders
from tocsin.store.pool import Connection, Pool
from tocsin.store.rows import fetch_all
from tocsin.wire.person.endpoints import Endpoint, PersonEndpoints, Skipped

PROVIDER = "sns"
MOST_OF_PERSON = 100


class EndpointRow(msgspec.Struct, frozen=True, kw_only=True):
    """An active endpoint with consent; its token is as it is stored, which may be sealed."""

    device_id: UUID
    user_id: str
    platform: str
    token: str
    last_seen_at: datetime

    def __repr__(self) -> str:
        """Show the device, not its token."""
        return f"EndpointRow({self.device_id})"


# A limit for each person: one with many devices does not crowd out the others. In the order of the index
# devices_of_user: by last_seen_at alone, a plan made on an empty table reads the devices of everybody.
FIND = """
select device.device_id, person.user_id, device.platform, device.token, device.last_seen_at
from unnest($1::text[]) as person (user_id)
cross join lateral (
    select id as device_id, platform, token, last_seen_at
    from devices
    where user_id = person.user_id and retired_at is null and provider = $2 and push_enabled
    order by retired_at desc nulls first, last_seen_at desc, id desc
    limit $3
) as device
"""

CHOICES = """
select user_id, choices
from preferences
where user_id = any($1::text[])
"""

# `coalesce` keeps the plan at the token's index: see SET_CONSENT of devices.
RETIRE = """
update devices
set retired_at = $3, retired_reason = $4
where token_hash = $1
    and provider = $2
    and coalesce(retired_at, 'infinity') = 'infinity'
    and ($5::timestamptz is null or last_seen_at <= $5)
returning id
"""


async def find(
    connection: Connection,
    user_ids: Sequence[str],
    category: str | None,
    read_token: Callable[[EndpointRow], str | None],
    *,
    org_id: str | None = None,
) -> list[PersonEndpoints]:
    """Find the active endpoints of each person, without people who opted out of a category by push.

    With `org_id`, people of another organisation are left out. `read_token` returns the ARN of an endpoint,
    or None if its token cannot be read.
    """
    people = list(dict.fromkeys(user_ids))
    skipped: dict[str, Skipped] = {}
    if category:
        skipped |= dict.fromkeys(await _opted_out(connection, people, category), "opted_out")
    if org_id is not None:
        outside = await outsiders(connection, [org_id] * len(people), people)
        skipped |= {people[place]: "not_your_organisation" for place in outside}
    wanted = [each for each in people if each not in skipped]
    endpoints: dict[str, list[Endpoint | None]] = {each: [] for each in wanted}
    for row in await fetch_all(connection, EndpointRow, FIND, wanted, PROVIDER, MOST_OF_PERSON):
        arn = read_token(row)
        endpoints[row.user_id].append(_endpoint(row, arn) if arn else None)
    return [
        PersonEndpoints(user_id=each, skipped=skipped[each])
        if each in skipped
        else PersonEndpoints(
            user_id=each,
            endpoints=[one for one in endpoints[each] if one is not None],
            unreadable=endpoints[each].count(None),
        )
        for each in people
    ]


async def retire(
    connection: Connection | Pool,
    endpoint_arn: str,
    code: str,
    now: datetime,
    *,
    last_seen_at: datetime | None = None,
) -> UUID | None:
    """Retire an endpoint unless it was seen after `last_seen_at`; return the device if this call did it."""
    reason = f"gone: {code}"
    device_id: UUID | None = await connection.fetchval(
        RETIRE, token_hash(endpoint_arn), PROVIDER, now, reason, last_seen_at
    )
    return device_id


def _endpoint(row: EndpointRow, arn: str) -> Endpoint:
    return Endpoint(
        endpoint_arn=arn, platform=row.platform, device_id=row.device_id, last_seen_at=row.last_seen_at
    )


async def _opted_out(connection: Connection, user_ids: Sequence[str], category: str) -> frozenset[str]:
    rows = await connection.fetch(CHOICES, user_ids)
    stored = {row["user_id"]: msgspec.json.decode(row["choices"]) for row in rows}
    return frozenset(
        user_id for user_id, choices in stored.items() if allows(choices, category, "push") is Choice.NO
    )
