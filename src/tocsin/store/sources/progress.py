"""Periodic producers: checkpoint, next run, and the lease of the run under way."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal, TypeAlias
from uuid import UUID

import msgspec

from tocsin.domain.ids import LeaseId
from tocsin.domain.timing.schedule import CatchUp, Schedule, ValueType
from tocsin.store.health.provider_health import storable
from tocsin.store.pool import Connection

LONGEST_TEXT = 1_000

ProgressKind: TypeAlias = Literal["python", "scan", "upkeep"]
ProgressStatus: TypeAlias = Literal["idle", "running", "failed"]


class Scheduled(msgspec.Struct, frozen=True, kw_only=True):
    """What runs by a schedule; `initial` is its checkpoint before the first run, a JSON value.

    A checkpoint is of `value_type`, or any JSON value if that is None.
    """

    name: str
    kind: ProgressKind
    schedule: Schedule
    value_type: ValueType | None = None
    initial: Any = None


class Counts(msgspec.Struct, frozen=True):
    """How many intents of a producer were accepted, duplicates, or refused."""

    accepted: int = 0
    duplicates: int = 0
    refused: int = 0


class ProgressRow(msgspec.Struct, frozen=True, kw_only=True):
    """The progress of a periodic producer."""

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


# A changed schedule counts from now on; an unchanged one keeps its next run, even if that is overdue.
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

_COLUMNS = ", ".join(ProgressRow.__struct_fields__)

LIST = """
select {columns}
from progress
order by name
""".replace("{columns}", _COLUMNS)

# The caller's `next_run_at` must still be current: whoever read an old one finds that the run is over.
BEGIN = """
update progress
set lease = $3, leased_until = $4, status = 'running', last_run_at = $5
where name = $1
    and next_run_at = $2
    and (lease is null or leased_until <= $5)
    and (run_requested_at is not null or coalesce(retry_at, next_run_at) <= $5)
returning {columns}
""".replace("{columns}", _COLUMNS)

SKIP = """
update progress
set next_run_at = $3
where name = $1 and next_run_at = $2 and lease is null
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

RELEASE = """
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

# A run under way loses its lease, so that it cannot overwrite the value.
REWIND = """
update progress
set last_value = $2::jsonb,
    lease = null,
    leased_until = null,
    status = case when status = 'running' then 'idle' else status end
where name = $1
returning name
"""

CLEAR_ALARMS = """
update alarms
set cleared_at = $3, cleared_by = 'recovered'
where cleared_at is null and provider = any($1::text[]) and code = any($2::text[])
"""


async def register(
    connection: Connection, scheduled: Scheduled, *, next_run_at: datetime, now: datetime
) -> None:
    """Store what a worker can run; its checkpoint, and its next run unless the schedule changed, are kept."""
    await connection.execute(
        REGISTER,
        scheduled.name,
        scheduled.kind,
        scheduled.schedule.cron,
        scheduled.schedule.timezone,
        scheduled.schedule.catch_up,
        scheduled.value_type,
        _to_json(scheduled.initial),
        next_run_at,
        now,
    )


async def seen(connection: Connection, names: Sequence[str], now: datetime) -> None:
    """Record that a worker can still run these."""
    await connection.execute(SEEN, names, now)


async def list_progress(connection: Connection) -> list[ProgressRow]:
    """List every producer, by name."""
    return [_row(row) for row in await connection.fetch(LIST)]


async def begin(
    connection: Connection, name: str, *, seen_next: datetime, lease: LeaseId, until: datetime, now: datetime
) -> ProgressRow | None:
    """Claim the lease on a run that is due; None if another worker has it."""
    row = await connection.fetchrow(BEGIN, name, seen_next, lease, until, now)
    return _row(row) if row else None


async def skip(connection: Connection, name: str, *, seen_next: datetime, to: datetime) -> bool:
    """Skip the runs before a time."""
    return bool(await connection.fetchval(SKIP, name, seen_next, to))


async def advance(
    connection: Connection, name: str, lease: LeaseId, until: datetime, value: Any = msgspec.UNSET
) -> bool:
    """Renew the lease and move the checkpoint, if one is given; return False if the lease was lost."""
    moved = value is not msgspec.UNSET
    return bool(
        await connection.fetchval(ADVANCE, name, lease, until, moved, _to_json(value) if moved else None)
    )


async def count(connection: Connection, name: str, lease: LeaseId, counts: Counts) -> None:
    """Add to the counts of a producer."""
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
    """End a run that succeeded; return False if the lease was lost."""
    return bool(await connection.fetchval(SUCCEED, name, lease, next_run_at, now, _text(note)))


async def fail(
    connection: Connection, name: str, lease: LeaseId, *, retry_at: datetime, error: str
) -> int | None:
    """End a run that failed; return the number of failures in a row, or None if the lease was lost."""
    failures: int | None = await connection.fetchval(FAIL, name, lease, retry_at, _text(error))
    return failures


async def release(connection: Connection, name: str, lease: LeaseId) -> None:
    """Release the lease, so that another worker can continue the run at once."""
    await connection.execute(RELEASE, name, lease)


async def request_run(connection: Connection, name: str, now: datetime) -> bool:
    """Request a run now; return False if there is no such producer."""
    return bool(await connection.fetchval(REQUEST, name, now))


async def rewind(connection: Connection, name: str, value: Any) -> bool:
    """Set the checkpoint; return False if there is no such producer."""
    return bool(await connection.fetchval(REWIND, name, _to_json(value)))


async def clear_alarms(
    connection: Connection, subjects: Sequence[str], codes: Sequence[str], now: datetime
) -> None:
    """Clear standing alarms whose cause is gone."""
    await connection.execute(CLEAR_ALARMS, subjects, codes, now)


def _to_json(value: Any) -> str | None:
    return None if value is None else msgspec.json.encode(value).decode()


def _row(record: Any) -> ProgressRow:
    fields = dict(record)
    if fields["last_value"] is not None:
        fields["last_value"] = msgspec.json.decode(fields["last_value"])
    return ProgressRow(**fields)


def _text(text: str | None) -> str | None:
    return None if text is None else storable(text)[:LONGEST_TEXT]
