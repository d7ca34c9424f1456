"""People's choices: what they want to hear of, by which channel."""

from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache

import msgspec
import structlog

from tocsin.domain.people.preferences import MOST_CATEGORIES, Changes, Choices, StoredChoices, readable
from tocsin.store.pool import Connection, Pool

_log = structlog.stdlib.get_logger(__name__)
_encoder = msgspec.json.Encoder()
_expected: msgspec.json.Decoder[Choices] = msgspec.json.Decoder(Choices)
_REMEMBERED_PEOPLE = 10_000

# The row is locked before it is merged, so changes made at the same time all count.
CHANGE = """
insert into preferences (user_id, choices, updated_at)
values ($1, merged_choices('{}', $2), $3)
on conflict (user_id) do update
set choices = merged_choices(preferences.choices, $2),
    updated_at = excluded.updated_at
where $4::integer is null
    or (select count(*) from jsonb_object_keys(merged_choices(preferences.choices, $2))) <= $4
returning choices
"""

GET = """
select choices
from preferences
where user_id = $1
"""

OF_USERS = """
select user_id, choices
from preferences
where user_id = any($1::text[])
"""


class TooManyCategories(msgspec.Struct, frozen=True):
    """The changes would leave the person with choices on more categories than are kept."""

    most: int


async def change(
    connection: Connection | Pool, user_id: str, changes: Changes, now: datetime
) -> Choices | TooManyCategories:
    """Lay changes over a person's choices and give what they are then; taking away is never refused."""
    adds = any(channels for channels in changes.values())
    most = MOST_CATEGORIES if adds else None
    stored = await connection.fetchval(CHANGE, user_id, _encoder.encode(changes).decode(), now, most)
    if stored is None:
        return TooManyCategories(MOST_CATEGORIES)
    return readable(_read(user_id, stored))


async def refuse(
    connection: Connection | Pool, user_id: str, category: str, channel: str, now: datetime
) -> None:
    """Store that a person no longer wants a category by a channel, however much they chose before."""
    changes = _encoder.encode({category: {channel: False}}).decode()
    await connection.execute(CHANGE, user_id, changes, now, None)


async def get(connection: Connection | Pool, user_id: str) -> Choices:
    """Read the choices a person made, without what is malformed."""
    stored = await connection.fetchval(GET, user_id)
    return {} if stored is None else readable(_read(user_id, stored))


async def of_users(connection: Connection | Pool, user_ids: Sequence[str]) -> dict[str, StoredChoices]:
    """Read the stored choices of many people, for `allows`; who made none is left out."""
    rows = await connection.fetch(OF_USERS, user_ids)
    return {row["user_id"]: _read(row["user_id"], row["choices"]) for row in rows}


def _read(user_id: str, stored: str) -> StoredChoices:
    """Read stored choices as they are; what should not be in them is said, not mended."""
    try:
        return _expected.decode(stored)
    except msgspec.ValidationError as error:
        _say_malformed(user_id, str(error))
    choices: StoredChoices = msgspec.json.decode(stored)
    return choices


@lru_cache(maxsize=_REMEMBERED_PEOPLE)
def _say_malformed(user_id: str, error: str) -> None:
    """Log once for each person and fault; the cache is what remembers."""
    _log.warning("stored preferences are malformed and read as yes", user_id=user_id, error=error)
