"""Reads what gauges show of the database, at a cost that no backlog increases."""

from collections.abc import Sequence

import msgspec

from tocsin.domain.delivery import states
from tocsin.store.pool import Connection
from tocsin.store.rows import fetch_all


class LaneDepth(msgspec.Struct, frozen=True, kw_only=True):
    """How many deliveries of a lane wait, each counted up to a number, and how long the oldest is overdue."""

    lane: str
    due: int
    scheduled: int
    held: int
    oldest_seconds: float


class CircuitCount(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a provider's own circuit breaker, and how many of its hosts' are not closed."""

    provider: str
    state: str
    hosts: int


class NamedCount(msgspec.Struct, frozen=True, kw_only=True):
    """How many there are of something."""

    name: str
    count: int


class PeriodicLag(msgspec.Struct, frozen=True, kw_only=True):
    """How long a periodic producer is overdue, and how often it failed in a row."""

    name: str
    late_seconds: float
    failures: int


# Each count is a stretch of the index of lanes, in which what is held comes last, at infinity.
LANE_DEPTHS = """
select
    given.lane, due.count as due, scheduled.count as scheduled, held.count as held,
    coalesce(extract(epoch from now() - due.due_at), 0)::double precision as oldest_seconds
from unnest($1::text[]) as given (lane)
cross join lateral (
    select count(*) as count, min(waiting.due_at) as due_at
    from (
        select due_at
        from deliveries
        where deliveries.lane = given.lane
            and state in ('scheduled', 'pending', 'retrying')
            and due_at <= now()
            and (leased_until is null or leased_until <= now())
        order by deliveries.lane, due_at, id
        limit $2
    ) as waiting
) as due
cross join lateral (
    select count(*) as count
    from (
        select
        from deliveries
        where deliveries.lane = given.lane
            and state in ('scheduled', 'pending', 'retrying')
            and due_at > now()
            and due_at < 'infinity'
        order by deliveries.lane, due_at, id
        limit $2
    ) as waiting
) as scheduled
cross join lateral (
    select count(*) as count
    from (
        select
        from deliveries
        where deliveries.lane = given.lane
            and state in ('scheduled', 'pending', 'retrying')
            and due_at = 'infinity'
        order by deliveries.lane, due_at, id
        limit $2
    ) as waiting
) as held
order by given.lane
"""

CIRCUIT_COUNTS = """
select
    given.provider,
    coalesce((select state from circuits where name = given.provider), 'closed') as state,
    (
        select count(*)
        from (
            select
            from circuits
            where name > given.provider || '/' and name < given.provider || '0' and state <> 'closed'
            limit $2
        ) as hosts
    ) as hosts
from unnest($1::text[]) as given (provider)
order by given.provider
"""

# A state that is a constant is looked up in the index of unusual states, each by itself.
DEAD_LETTERS = "\nunion all\n".join(
    f"""
select '{state}' as name, count(*) as count
from (select from deliveries where state = '{state}' order by state, notification_id limit $1) as ended
"""  # noqa: S608 - made of constants
    for state in sorted(states.DEAD_LETTERS)
)

STANDING_ALARMS = """
select code as name, count(*) as count
from (
    select code
    from alarms
    where cleared_at is null
    order by provider, code
    limit $1
) as standing
group by code
order by code
"""

# A producer that no worker knows any more does not count.
PERIODIC_LAG = """
select
    name,
    case
        when lease is not null and leased_until > now() then 0
        else greatest(0, extract(epoch from now() - coalesce(retry_at, next_run_at)))
    end::double precision as late_seconds,
    failures
from progress
where seen_at > now() - interval '1 day'
order by name
limit $1
"""


async def lane_depths(connection: Connection, lanes: Sequence[str], most: int) -> list[LaneDepth]:
    """Count what waits in each lane, at most `most` of each kind."""
    return await fetch_all(connection, LaneDepth, LANE_DEPTHS, lanes, most)


async def circuit_counts(connection: Connection, providers: Sequence[str], most: int) -> list[CircuitCount]:
    """Read the circuit breakers of providers, and count those of their hosts that are not closed."""
    return await fetch_all(connection, CircuitCount, CIRCUIT_COUNTS, providers, most)


async def dead_letters(connection: Connection, most: int) -> list[NamedCount]:
    """Count the deliveries that are dead letters, by state, at most `most` of each."""
    return await fetch_all(connection, NamedCount, DEAD_LETTERS, most)


async def standing_alarms(connection: Connection, most: int) -> list[NamedCount]:
    """Count the alarms that stand, by code."""
    return await fetch_all(connection, NamedCount, STANDING_ALARMS, most)


async def periodic_lag(connection: Connection, most: int) -> list[PeriodicLag]:
    """Read how long periodic producers are overdue."""
    return await fetch_all(connection, PeriodicLag, PERIODIC_LAG, most)
