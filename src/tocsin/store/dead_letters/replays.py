"""Replays of dead letters: what to replay, at which rate, and how far each one is."""

from collections.abc import Mapping
from datetime import datetime
from uuid import UUID

import msgspec

from tocsin.store.pool import Connection
from tocsin.store.rows import fetch_all, fetch_one


class ReplayRow(msgspec.Struct, frozen=True, kw_only=True):
    """A replay; `filter` and `left_out` are JSON, `wait` is the number of seconds until its next batch."""

    id: UUID
    idempotency_key: str | None
    filter: str
    rate: int
    force: bool
    state: str
    created_by: str
    created_at: datetime
    matched: int
    matched_or_more: bool
    replayed: int
    left_out: str
    position: UUID
    through: UUID
    finished_at: datetime | None
    stopped_by: str | None
    wait: float


class NewReplay(msgspec.Struct, frozen=True, kw_only=True):
    """A replay to start; `filter` is JSON."""

    id: UUID
    idempotency_key: str | None
    filter: str
    rate: int
    force: bool
    created_by: str
    matched: int
    matched_or_more: bool
    position: UUID
    through: UUID


_COLUMNS = ", ".join(ReplayRow.__struct_fields__[:-1])
_ROW = f"{_COLUMNS}, extract(epoch from next_at - clock_timestamp())::float8 as wait"
# A replay is of the organisation that its filter has: that one decides what it sends. There are few replays.
_IS_OF_ORG = "(${0}::text is null or filter ->> 'org_id' = ${0})"

CREATE = f"""
insert into replays (
    id, idempotency_key, filter, rate, force, created_by, matched, matched_or_more, position, through
)
values ($1, $2, $3::jsonb, $4, $5, $6, $7, $8, $9, $10)
on conflict (idempotency_key) do nothing
returning {_ROW}
"""  # noqa: S608 - made of constants

BY_KEY = f"""
select {_ROW}
from replays
where idempotency_key = $1
"""  # noqa: S608 - made of constants

GET = f"""
select {_ROW}
from replays
where id = $1 and {_IS_OF_ORG.format(2)}
"""  # noqa: S608 - made of constants

LIST = f"""
select {_ROW}
from replays
where id < $1 and {_IS_OF_ORG.format(3)}
order by id desc
limit $2
"""  # noqa: S608 - made of constants

TAKE = f"""
select {_ROW}
from replays
where state = 'running'
order by next_at
limit 1
for update skip locked
"""  # noqa: S608 - made of constants

# A replay that fell behind catches up by no more than a second's worth.
ADVANCE = """
update replays
set position = $2,
    replayed = replayed + $3::bigint,
    left_out = $4::jsonb,
    next_at = greatest(next_at, clock_timestamp() - interval '1 second')
        + $3::bigint / rate::float8 * interval '1 second',
    state = case when $5 then 'finished' else state end,
    finished_at = case when $5 then clock_timestamp() end
where id = $1
"""

POSTPONE = "update replays set next_at = clock_timestamp() + $2 * interval '1 second' where id = $1"

STOP = f"""
update replays
set state = 'stopped', finished_at = clock_timestamp(), stopped_by = $2
where id = $1 and state = 'running' and {_IS_OF_ORG.format(3)}
returning {_ROW}
"""  # noqa: S608 - made of constants


async def create(connection: Connection, new: NewReplay) -> ReplayRow | None:
    """Store a replay, or return None if its idempotency key was used before."""
    return await fetch_one(connection, ReplayRow, CREATE, *msgspec.structs.astuple(new))


async def by_key(connection: Connection, idempotency_key: str) -> ReplayRow | None:
    """Read the replay that was started with an idempotency key."""
    return await fetch_one(connection, ReplayRow, BY_KEY, idempotency_key)


async def get(connection: Connection, replay_id: UUID, org_id: str | None = None) -> ReplayRow | None:
    """Read one replay, of an organisation or of anybody."""
    return await fetch_one(connection, ReplayRow, GET, replay_id, org_id)


async def page(
    connection: Connection, before: UUID, limit: int, org_id: str | None = None
) -> list[ReplayRow]:
    """List replays before an id, newest first, of an organisation or all."""
    return await fetch_all(connection, ReplayRow, LIST, before, limit, org_id)


async def take(connection: Connection) -> ReplayRow | None:
    """Lock the running replay whose next batch is due first, unless another worker has it."""
    return await fetch_one(connection, ReplayRow, TAKE)


async def advance(
    connection: Connection,
    replay_id: UUID,
    position: UUID,
    *,
    replayed: int,
    left_out: Mapping[str, int],
    finished: bool,
) -> None:
    """Move a replay that is under lock, and schedule its next batch by its rate."""
    counts = msgspec.json.encode(left_out).decode()
    await connection.execute(ADVANCE, replay_id, position, replayed, counts, finished)


async def postpone(connection: Connection, replay_id: UUID, seconds: float) -> None:
    """Leave a replay that is under lock for a while."""
    await connection.execute(POSTPONE, replay_id, seconds)


async def stop(
    connection: Connection, replay_id: UUID, by: str, org_id: str | None = None
) -> ReplayRow | None:
    """Stop a running replay, of an organisation or of anybody; what it replayed stays replayed."""
    return await fetch_one(connection, ReplayRow, STOP, replay_id, by, org_id)
