"""The health of providers as operators see it: what came of attempts, and standing alarms."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

import msgspec

from tocsin.domain.ids import new_alarm_id
from tocsin.store.pool import Connection


class Counted(NamedTuple):
    """What attempts are counted by; what was sent has no code."""

    provider: str
    outcome: str
    code: str


class Alarm(msgspec.Struct, frozen=True):
    """A fault that an operator has to act on."""

    provider: str
    code: str
    detail: str


class AlarmRow(msgspec.Struct, frozen=True, kw_only=True):
    """An alarm as it is stored; it stands until it is cleared."""

    id: UUID
    provider: str
    code: str
    detail: str
    raised_at: datetime
    last_at: datetime
    count: int
    cleared_at: datetime | None
    cleared_by: str | None


class CountRow(msgspec.Struct, frozen=True, kw_only=True):
    """How many attempts came to one outcome since some moment."""

    provider: str
    outcome: str
    code: str
    count: int


# Sorted, so that two workers never lock the same rows crosswise.
COUNT = """
insert into provider_counts as counted (provider, minute, outcome, code, count)
select provider, date_trunc('minute', $5::timestamptz), outcome, code, count
from unnest($1::text[], $2::text[], $3::text[], $4::bigint[]) as given (provider, outcome, code, count)
order by provider, outcome, code
on conflict (provider, minute, outcome, code) do update
set count = counted.count + excluded.count
"""

COUNTS_SINCE = """
select provider, outcome, code, sum(count)::bigint as count
from provider_counts
where minute >= $1
group by provider, outcome, code
order by provider, count desc, outcome, code
"""

FORGET_COUNTS = """
delete from provider_counts
where minute < $1
"""

RAISE = """
insert into alarms as standing (id, provider, code, detail, raised_at, last_at, count)
select id, provider, code, detail, $6::timestamptz, $6, count
from unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::bigint[])
    as given (id, provider, code, detail, count)
order by provider, code
on conflict (provider, code) where cleared_at is null do update
set last_at = excluded.last_at, detail = excluded.detail, count = standing.count + excluded.count
"""

ALARMS = """
select id, provider, code, detail, raised_at, last_at, count, cleared_at, cleared_by
from alarms
where ($1 or cleared_at is null) and id < $2
order by id desc
limit $3
"""

CLEAR_ALARM = """
update alarms
set cleared_at = $2, cleared_by = $3
where id = $1 and cleared_at is null
returning id, provider, code, detail, raised_at, last_at, count, cleared_at, cleared_by
"""


async def count_outcomes(connection: Connection, counts: Mapping[Counted, int], now: datetime) -> None:
    """Add what attempts came to, to the minute at hand."""
    columns = [list(column) for column in zip(*counts, strict=True)]
    await connection.execute(COUNT, *columns, list(counts.values()), now)


async def counts_since(connection: Connection, since: datetime) -> list[CountRow]:
    """Read what attempts came to since the beginning of a minute, the most frequent first."""
    return [CountRow(**row) for row in await connection.fetch(COUNTS_SINCE, since)]


async def forget_counts(connection: Connection, before: datetime) -> None:
    """Delete the counts of minutes long past."""
    await connection.execute(FORGET_COUNTS, before)


async def raise_alarms(connection: Connection, alarms: Mapping[Alarm, int], now: datetime) -> None:
    """Raise alarms, or count them once more where they stand already."""
    latest = {(alarm.provider, alarm.code): alarm for alarm in alarms}
    counts: dict[tuple[str, str], int] = {}
    for alarm, count in alarms.items():
        counts[alarm.provider, alarm.code] = counts.get((alarm.provider, alarm.code), 0) + count
    await connection.execute(
        RAISE,
        [new_alarm_id() for _ in latest],
        [alarm.provider for alarm in latest.values()],
        [alarm.code for alarm in latest.values()],
        [alarm.detail for alarm in latest.values()],
        list(counts.values()),
        now,
    )


async def list_alarms(
    connection: Connection, *, cleared: bool, before: UUID, limit: int
) -> Sequence[AlarmRow]:
    """Read alarms, newest first: those that stand, or all."""
    return [AlarmRow(**row) for row in await connection.fetch(ALARMS, cleared, before, limit)]


async def clear_alarm(
    connection: Connection, alarm_id: UUID, cleared_by: str, now: datetime
) -> AlarmRow | None:
    """Clear a standing alarm."""
    row = await connection.fetchrow(CLEAR_ALARM, alarm_id, now, cleared_by)
    return AlarmRow(**row) if row else None
