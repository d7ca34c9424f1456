"""What is known of people at this moment, for decisions that are not about a delivery yet."""

from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

import msgspec

from tocsin.domain.decide import Person
from tocsin.store.deliveries.claim import ReachedDevice, read_devices, read_person
from tocsin.store.pool import Connection


class RecipientProfile(msgspec.Struct, frozen=True, kw_only=True):
    """A person with all they can be reached at; `behind` tells that something in their row still waits."""

    user_id: str
    behind: bool
    mailbox: str | None
    suppressed: bool
    person: Person
    locale: str | None
    devices: tuple[ReachedDevice, ...]


PEOPLE = """
select
    given.user_id,
    given.ordering_key is not null and exists (
        select
        from deliveries
        where deliveries.ordering_key = given.ordering_key
            and state in ('scheduled', 'pending', 'retrying')
    ) as behind,
    users.email,
    (
        select true
        from suppressed_addresses
        where suppressed_addresses.address = lower(users.email)
        limit 1
    ) is not null,
    users.timezone,
    users.gmt_offset_seconds,
    users.allowed_window,
    preferences.choices::text,
    users.locale,
    devices.id,
    devices.token,
    devices.provider,
    devices.platform,
    devices.locale,
    devices.timezone,
    devices.last_seen_at,
    devices.token_kind,
    devices.secret
from unnest($1::text[], $2::text[]) as given (user_id, ordering_key)
left join users on users.user_id = given.user_id
left join preferences on preferences.user_id = given.user_id
left join devices
    on devices.user_id = given.user_id and devices.retired_at is null and devices.push_enabled
order by given.user_id, devices.last_seen_at desc
"""

_PERSON_AT = 4
_DEVICE_AT = 9
_first = itemgetter(0)


async def people(
    connection: Connection, user_ids: Sequence[str], ordering_keys: Sequence[str | None]
) -> dict[str, RecipientProfile]:
    """Read what is known of people and whether their rows are busy."""
    rows = await connection.fetch(PEOPLE, user_ids, ordering_keys)
    return {user_id: _profile(list(same)) for user_id, same in groupby(rows, key=_first)}


def _profile(rows: Sequence[Sequence[Any]]) -> RecipientProfile:
    row = rows[0]
    person, locale = read_person(row[_PERSON_AT:_DEVICE_AT])
    return RecipientProfile(
        user_id=row[0],
        behind=row[1],
        mailbox=row[2],
        suppressed=row[3],
        person=person,
        locale=locale,
        devices=read_devices(rows, _DEVICE_AT),
    )
