"""People's preferences: a choice for each category and channel."""

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

# The row is locked before the merge, so concurrent changes are all applied.
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


class TooManyCategories(msgspec.Struct, frozen=True):
    """With the changes the person would have choices in more than `most` categories."""

    most: int


async def change(
    connection: Connection | Pool, user_id: str, changes: Changes, now: datetime
) -> Choices | TooManyCategories:
    """Merge changes into a person's choices and return the result; removing choices is always allowed."""
    most = MOST_CATEGORIES if any(changes.values()) else None
    stored = await connection.fetchval(CHANGE, user_id, _encoder.encode(changes).decode(), now, most)
    if stored is None:
        return TooManyCategories(MOST_CATEGORIES)
    return readable(_read(user_id, stored))


async def refuse(
    connection: Connection | Pool, user_id: str, category: str, channel: str, now: datetime
) -> None:
    """Opt a person out of a category by a channel, without a limit on their categories."""
    changes = _encoder.encode({category: {channel: False}}).decode()
    await connection.execute(CHANGE, user_id, changes, now, None)


async def get(connection: Connection | Pool, user_id: str) -> Choices:
    """Load a person's choices, without malformed ones."""
    stored = await connection.fetchval(GET, user_id)
    return {} if stored is None else readable(_read(user_id, stored))


def _read(user_id: str, stored: str) -> StoredChoices:
    """Decode stored choices unchanged; log malformed ones."""
    try:
        return _expected.decode(stored)
    except msgspec.ValidationError as error:
        _log_malformed(user_id, str(error))
    choices: StoredChoices = msgspec.json.decode(stored)
    return choices


@lru_cache(maxsize=_REMEMBERED_PEOPLE)
def _log_malformed(user_id: str, error: str) -> None:
    """Log once for each person and error; the cache remembers what was logged."""
    _log.warning("malformed preferences ignored", user_id=user_id, error=error)
