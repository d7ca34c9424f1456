"""How far each periodic producer is, when it runs next, and who runs it now."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal, TypeAlias
from uuid import UUID

import msgspec

from tocsin.domain.ids import LeaseId
from tocsin.domain.timing.schedule import CatchUp, ValueType
from tocsin.store.health.provider_health import storable
from tocsin.store.pool import Connection

LONGEST_TEXT = 1_000

ProgressKind: TypeAlias = Literal["python", "scan", "upkeep"]
ProgressStatus: TypeAlias = Literal["idle", "running", "failed"]

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder()


class Registration(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker says of a producer that it can run; `initial` counts only the first time."""

    name: str
    kind: ProgressKind
    schedule: str
    timezone: str
    catch_up: CatchUp
    value_type: ValueType | None
    initial: Any
    next_run_at: datetime


class Counts(msgspec.Struct, frozen=True):
    """What became of intents."""

    accepted: int = 0
    duplicates: int = 0
    refused: int = 0


class ProgressRow(msgspec.Struct, frozen=True, kw_only=True):
    """A periodic producer as it stands."""

    name: str
    kind: ProgressKind
    schedule: str
    timezone: str
    catch_up: CatchUp
    value_type: ValueType | None
    last_value: Any
    status: ProgressStatus
    next_run_at: datetime
    retry_at: datetime | None
    run_requested_at: datetime | None
    lease: UUID | None
    leased_until: datetime | None
    last_run_at: datetime | None
    last_success_at: datetime | None
    failures: int
    last_error: str | None
    note: str | None
    accepted: int
    duplicates: int
    refused: int
    seen_at: datetime


# A changed schedule counts from now on; an unchanged one keeps the run that it still owes.
REGISTER = """
insert into progress as known (
    name, kind, schedule, timezone, catch_up, value_type, last_value, next_run_at, seen_at
)
values ($1, $2, $3, $4, $5, $6, $7::jsonb, $8, $9)
on conflict (name) do update
set kind = excluded.kind,
    schedule = excluded.schedule,
    timezone = excluded.timezone,
    catch_up = excluded.catch_up,
    value_type = excluded.value_type,
    next_run_at = case
        when (known.schedule, known.timezone) = (excluded.schedule, excluded.timezone)
            then known.next_run_at
        else excluded.next_run_at
    end,
    seen_at = excluded.seen_at
"""

SEEN = """
update progress
set seen_at = $2
where name = any($1::text[])
"""

LIST = """
select
    name, kind, schedule, timezone, catch_up, value_type, last_value, status, next_run_at, retry_at,
    run_requested_at, lease, leased_until, last_run_at, last_success_at, failures, last_error, note,
    accepted, duplicates, refused, seen_at
from progress
order by name
"""

# The time seen must still be the one that stands: whoever looked too early finds that the run is over.
BEGIN = """
update progress
set lease = $3, leased_until = $4, status = 'running', last_run_at = $5
where name = $1
    and next_run_at = $2
    and (lease is null or leased_until <= $5)
    and (run_requested_at is not null or coalesce(retry_at, next_run_at) <= $5)
returning last_value, last_success_at
"""

SKIP = """
update progress
set next_run_at = $3
where name = $1 and next_run_at = $2 and lease is null
returning name
"""

RENEW = """
update progress
set leased_until = $3
where name = $1 and lease = $2
returning name
"""

ADVANCE = """
update progress
set leased_until = $3, last_value = case when $4 then $5::jsonb else last_value end
where name = $1 and lease = $2
returning name
"""

COUNT = """
update progress
set accepted = accepted + $3, duplicates = duplicates + $4, refused = refused + $5
where name = $1 and lease = $2
"""

SUCCEED = """
update progress
set status = 'idle',
    lease = null,
    leased_until = null,
    next_run_at = $3,
    retry_at = null,
    run_requested_at = case when run_requested_at > last_run_at then run_requested_at end,
    last_success_at = $4,
    failures = 0,
    last_error = null,
    note = $5
where name = $1 and lease = $2
returning name
"""

FAIL = """
update progress
set status = 'failed',
    lease = null,
    leased_until = null,
    retry_at = $3,
    run_requested_at = null,
    failures = failures + 1,
    last_error = $4
where name = $1 and lease = $2
returning failures
"""

GIVE_BACK = """
update progress
set status = 'idle', lease = null, leased_until = null
where name = $1 and lease = $2
"""

REQUEST = """
update progress
set run_requested_at = $2, retry_at = null
where name = $1
returning name
"""

# Whoever runs it now loses the lease, so that the value given is the one that stands.
REWIND = """
update progress
set last_value = $2::jsonb,
    lease = null,
    leased_until = null,
    status = case when status = 'running' then 'idle' else status end
where name = $1
returning name
"""

RECOVER = """
update alarms
set cleared_at = $3, cleared_by = 'recovered'
where cleared_at is null and provider = any($1::text[]) and code = any($2::text[])
"""


async def register(connection: Connection, given: Registration, now: datetime) -> None:
    """Make a producer known, or say that it still is."""
    await connection.execute(
        REGISTER,
        given.name,
        given.kind,
        given.schedule,
        given.timezone,
        given.catch_up,
        given.value_type,
        _written(given.initial),
        given.next_run_at,
        now,
    )


async def seen(connection: Connection, names: Sequence[str], now: datetime) -> None:
    """Say that a worker can run these."""
    await connection.execute(SEEN, names, now)


async def list_progress(connection: Connection) -> list[ProgressRow]:
    """Read every producer, by name."""
    rows = [dict(row) for row in await connection.fetch(LIST)]
    return [ProgressRow(**row | {"last_value": _read(row["last_value"])}) for row in rows]


class Begun(msgspec.Struct, frozen=True):
    """A run that is ours now: where it goes on from."""

    last_value: Any
    last_success_at: datetime | None


async def begin(
    connection: Connection, name: str, *, seen_next: datetime, lease: LeaseId, until: datetime, now: datetime
) -> Begun | None:
    """Take the lease on a run that is due, unless another worker has it."""
    row = await connection.fetchrow(BEGIN, name, seen_next, lease, until, now)
    return Begun(_read(row["last_value"]), row["last_success_at"]) if row else None


async def skip(connection: Connection, name: str, *, seen_next: datetime, to: datetime) -> bool:
    """Leave out the runs before a time."""
    return bool(await connection.fetchval(SKIP, name, seen_next, to))


async def renew(connection: Connection, name: str, lease: LeaseId, until: datetime) -> bool:
    """Keep the lease longer; false means that it is another's."""
    return bool(await connection.fetchval(RENEW, name, lease, until))


async def advance(
    connection: Connection, name: str, lease: LeaseId, until: datetime, *, moved: bool, value: Any
) -> bool:
    """Move the checkpoint under the present lease; false means that it is another's."""
    return bool(
        await connection.fetchval(ADVANCE, name, lease, until, moved, _written(value) if moved else None)
    )


async def count(connection: Connection, name: str, lease: LeaseId, counts: Counts) -> None:
    """Add what became of some intents."""
    await connection.execute(COUNT, name, lease, counts.accepted, counts.duplicates, counts.refused)


async def succeed(
    connection: Connection,
    name: str,
    lease: LeaseId,
    *,
    next_run_at: datetime,
    now: datetime,
    note: str | None = None,
) -> bool:
    """End a run well; the next one is due at its time."""
    return bool(await connection.fetchval(SUCCEED, name, lease, next_run_at, now, _text(note)))


async def fail(
    connection: Connection, name: str, lease: LeaseId, *, retry_at: datetime, error: str
) -> int | None:
    """End a run that failed and tell how often that happened in a row; none if the run was another's."""
    failures: int | None = await connection.fetchval(FAIL, name, lease, retry_at, _text(error))
    return failures


async def give_back(connection: Connection, name: str, lease: LeaseId) -> None:
    """Let another worker go on with a run at once."""
    await connection.execute(GIVE_BACK, name, lease)


async def request_run(connection: Connection, name: str, now: datetime) -> bool:
    """Ask for a run now; false means that there is no such producer."""
    return bool(await connection.fetchval(REQUEST, name, now))


async def rewind(connection: Connection, name: str, value: Any) -> bool:
    """Set the checkpoint; false means that there is no such producer."""
    return bool(await connection.fetchval(REWIND, name, _written(value)))


async def clear_recovered(
    connection: Connection, subjects: Sequence[str], codes: Sequence[str], now: datetime
) -> None:
    """Clear the alarms about what went well again."""
    await connection.execute(RECOVER, subjects, codes, now)


def _written(value: Any) -> str | None:
    return None if value is None else _encoder.encode(value).decode()


def _read(text: str | None) -> Any:
    return None if text is None else _decoder.decode(text)


def _text(text: str | None) -> str | None:
    return None if text is None else storable(text)[:LONGEST_TEXT]
