"""Stores counts of outcomes and alarms by provider."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

import msgspec

from tocsin.domain.ids import new_alarm_id
from tocsin.store.pool import Connection
from tocsin.store.rows import fetch_all, fetch_one, transpose


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


class AlarmRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A fault that an operator has to act on, until it is cleared."""

    alarm_id: UUID
    provider: str
    code: str
    detail: str
    raised_at: datetime
    last_at: datetime
    count: int
    cleared_at: datetime | None
    cleared_by: str | None


class CountRow(msgspec.Struct, frozen=True, kw_only=True):
    """How many attempts came to one outcome within a minute."""

    provider: str
    minute: datetime
    outcome: str
    code: str
    count: int


# Sorted, so that two workers never lock the same rows crosswise. The minute is that of the write, not of an
# earlier reading of the clock: minutes that are over are read once and then kept.
COUNT = """
insert into provider_counts as counted (provider, minute, outcome, code, count)
select provider, date_trunc('minute', clock_timestamp()), outcome, code, sum(count)
from unnest($1::text[], $2::text[], $3::text[], $4::bigint[]) as given (provider, outcome, code, count)
group by provider, outcome, code
order by provider, outcome, code
on conflict (provider, minute, outcome, code) do update
set count = counted.count + excluded.count
"""

COUNTS_SINCE = """
select provider, minute, outcome, code, count
from provider_counts
where minute >= $1
order by provider, minute, outcome, code
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

EVERY_ALARM = """
select id as alarm_id, provider, code, detail, raised_at, last_at, count, cleared_at, cleared_by
from alarms
where id < $1
order by id desc
limit $2
"""
# A statement of its own, so that the few that stand are found without reading the many that do not.
STANDING = EVERY_ALARM.replace("where", "where cleared_at is null and")

CLEAR_ALARM = """
update alarms
set cleared_at = $2, cleared_by = $3
where id = $1 and cleared_at is null
returning id as alarm_id, provider, code, detail, raised_at, last_at, count, cleared_at, cleared_by
"""

STANDING_CODES = """
select code
from alarms
where provider = $1 and code = any($2::text[]) and cleared_at is null
"""

# Each lane is one stretch of the due index; what a host holds is one of the index of holders.
COUNT_DUE = """
select given.lane, due.count + held.count as count
from unnest($1::text[]) as given (lane)
cross join lateral (
    select count(*) as count
    from (
        select
        from deliveries
        where deliveries.lane = given.lane
            and state in ('scheduled', 'pending', 'retrying')
            and due_at <= $2
            and (leased_until is null or leased_until <= $2)
        order by deliveries.lane, due_at, id
        limit $3
    ) as waiting
) as due
cross join lateral (
    select count(*) as count
    from (
        select
        from deliveries
        where held_by >= 'host:' || given.lane || '/'
            and held_by < 'host:' || given.lane || '0'
            and state in ('scheduled', 'pending', 'retrying')
        limit $3
    ) as waiting
) as held
"""

# Claims go by due time, so what is under lease is at the head of its lane.
COUNT_IN_FLIGHT = """
select given.lane, leased.count
from unnest($1::text[]) as given (lane)
cross join lateral (
    select count(*) as count
    from (
        select leased_until
        from deliveries
        where deliveries.lane = given.lane
            and state in ('scheduled', 'pending', 'retrying')
            and due_at <= $2
        order by deliveries.lane, due_at, id
        limit $3
    ) as head
    where head.leased_until > $2
) as leased
"""


def storable(text: str) -> str:
    """Return a provider's text as Postgres can store it, so that one text does not fail the whole write."""
    return text.replace("\x00", "\ufffd").encode(errors="replace").decode()


async def count_outcomes(connection: Connection, counts: Mapping[Counted, int]) -> None:
    """Add what attempts came to, to the minute at hand."""
    providers, outcomes, codes = transpose(counts, Counted._fields)
    storable_codes = list(map(storable, codes))
    await connection.execute(COUNT, providers, outcomes, storable_codes, list(counts.values()))


async def counts_since(connection: Connection, since: datetime) -> list[CountRow]:
    """Read what attempts came to, minute by minute, since the beginning of one."""
    return await fetch_all(connection, CountRow, COUNTS_SINCE, since)


async def raise_alarms(connection: Connection, alarms: Mapping[Alarm, int], now: datetime) -> None:
    """Raise alarms, or count them once more where they stand already."""
    latest: dict[tuple[str, str], str] = {}
    counts: Counter[tuple[str, str]] = Counter()
    for alarm, count in alarms.items():
        standing = alarm.provider, storable(alarm.code)
        latest[standing] = storable(alarm.detail)
        counts[standing] += count
    await connection.execute(
        RAISE,
        [new_alarm_id() for _ in latest],
        [provider for provider, _ in latest],
        [code for _, code in latest],
        list(latest.values()),
        [counts[standing] for standing in latest],
        now,
    )


async def list_alarms(
    connection: Connection, *, cleared: bool, before: UUID, limit: int
) -> list[AlarmRecord]:
    """Read alarms, newest first: those that stand, or all."""
    statement = EVERY_ALARM if cleared else STANDING
    return await fetch_all(connection, AlarmRecord, statement, before, limit)


async def standing_codes(connection: Connection, subject: str, codes: Sequence[str]) -> set[str]:
    """Return which alarms about a subject stand."""
    return {row["code"] for row in await connection.fetch(STANDING_CODES, subject, codes)}


async def clear_alarm(
    connection: Connection, alarm_id: UUID, cleared_by: str, now: datetime
) -> AlarmRecord | None:
    """Clear a standing alarm."""
    return await fetch_one(connection, AlarmRecord, CLEAR_ALARM, alarm_id, now, cleared_by)


async def count_due(connection: Connection, lanes: Sequence[str], now: datetime, most: int) -> dict[str, int]:
    """Count the deliveries that wait in each lane or for one of its hosts, up to a number."""
    return {row["lane"]: row["count"] for row in await connection.fetch(COUNT_DUE, lanes, now, most)}


async def count_in_flight(
    connection: Connection, lanes: Sequence[str], now: datetime, most: int
) -> dict[str, int]:
    """Count the deliveries of each lane that workers hold, among the first `most` that are due."""
    return {row["lane"]: row["count"] for row in await connection.fetch(COUNT_IN_FLIGHT, lanes, now, most)}
