"""Stores circuit breakers and rate-limit slots."""

from datetime import datetime, timedelta
from typing import Literal, NamedTuple

import msgspec

from tocsin.store.health.provider_health import storable
from tocsin.store.pool import Connection


class CircuitRow(msgspec.Struct, frozen=True, kw_only=True):
    """A stored circuit breaker; `openings` counts how often it opened without closing in between."""

    name: str
    provider: str
    state: Literal["closed", "open", "half_open"]
    code: str | None
    detail: str | None
    openings: int
    changed_at: datetime
    retry_at: datetime | None
    probe_until: datetime | None


class Slot(NamedTuple):
    """When some messages may be sent, and the time of the answer, both by the database's clock."""

    begins: float
    now: float


class Opening(msgspec.Struct, frozen=True, kw_only=True):
    """Why a circuit breaker opens, and for how long at least.

    Without an `after` of the provider's own it rests `rest`, twice as long each time it opens again, but
    not longer than `longest`.
    """

    name: str
    provider: str
    code: str
    detail: str
    after: timedelta
    rest: timedelta
    longest: timedelta


TROUBLED = """
select name, provider, state, code, detail, openings, changed_at, retry_at, probe_until
from circuits
where state <> 'closed'
order by name
"""

# Several workers may find a provider down in the same moment: the first opens the circuit, the others
# can only make it stay open longer, without counting as further openings.
OPEN = """
insert into circuits as c (name, provider, state, code, detail, openings, changed_at, retry_at)
values (
    $1, $2, 'open', $3, $4, 1, $8::timestamptz, $8 + greatest($5::interval, least($6::interval, $7::interval))
)
on conflict (name) do update
set state = 'open',
    code = excluded.code,
    detail = excluded.detail,
    openings = c.openings + (c.state <> 'open')::integer,
    changed_at = case when c.state = 'open' then c.changed_at else excluded.changed_at end,
    retry_at = greatest(
        case when c.state = 'open' then c.retry_at end,
        $8 + greatest(
            $5, least($6 * power(2, least(c.openings - (c.state = 'open')::integer, 20)), $7)
        )
    ),
    probe_until = null
"""

TAKE_PROBE = """
update circuits
set state = 'half_open', probe_until = $3, changed_at = $2
where name = $1
    and ((state = 'open' and retry_at <= $2) or (state = 'half_open' and probe_until <= $2))
returning name
"""

RETURN_PROBE = """
update circuits
set state = 'open', probe_until = null, retry_at = $2
where name = $1 and state = 'half_open'
"""

END_RESTS = """
update circuits
set retry_at = least(retry_at, $2)
where provider = $1 and state = 'open'
returning name
"""

# What a circuit opened for is over when it closes. Other alarms of the provider, about devices or a key of
# one platform, are not: somebody has to act on them.
CLOSE = """
with reason as materialized (
    select code from circuits where name = $1
),
closed as (
    update circuits
    set state = 'closed', openings = 0, changed_at = $2::timestamptz, ramp_from = $2, retry_at = null,
        probe_until = null, code = null, detail = null
    where name = $1 and state <> 'closed'
    returning provider
),
recovered as (
    update alarms
    set cleared_at = $2, cleared_by = 'recovered'
    where cleared_at is null
        and provider in (select provider from closed)
        and code in (select code from reason)
        and not exists (
            select
            from circuits as other
            where other.provider = alarms.provider and other.name <> $1 and other.state <> 'closed'
        )
)
select count(*)
from closed
"""

# Slots follow each other by the clock of the database, which all workers share: each takes the time of its
# messages, and begins only when no window would have more than the rate. The first rule alone is not enough:
# a slot's messages leave together at its beginning, so slots of several sizes can begin with more within a
# second. Slots in the same hundredth of a window are listed as one, at the later time: the list stays short.
# After a rest the rate grows from a tenth to the whole within the ramp; a tenth is the least also where the
# worker that closed the circuit is ahead of the database. A slot need not outlive a crash of the server:
# waiting for the disk would only make the answer come late.
GRANT = """
with paced as (
    select
        $4::double precision * interval '1 second' as whole,
        $2::integer * $4 / (
            $3::double precision * case
                when c.ramp_from is null or $5::double precision = 0 then 1
                else least(
                    1,
                    0.1 + 0.9 * greatest(
                        0, extract(epoch from clock_timestamp() - c.ramp_from)::double precision / $5
                    )
                )
            end
        ) * interval '1 second' as takes,
        clock_timestamp() as now
    from (select max(ramp_from) as ramp_from from circuits where name = $1) as c
)
insert into circuits as c (name, provider, changed_at, free_at, slots_at, slot_sizes)
select $1, $1, paced.now, paced.now + paced.takes, array[paced.now], array[$2]
from paced
cross join (select set_config('synchronous_commit', 'off', true)) as unhurried
on conflict (name) do update
set (free_at, slots_at, slot_sizes) = (
    select
        slot.begins + (excluded.free_at - excluded.changed_at),
        array_agg(earlier.at order by earlier.at) filter (where earlier.is_apart) || slot.begins,
        array_agg(earlier.size order by earlier.at) filter (where earlier.is_apart)
            || (coalesce(sum(earlier.size) filter (where not earlier.is_apart), 0)::integer + $2)
    from paced
    cross join lateral (
        select
            greatest(
                c.free_at,
                clock_timestamp(),
                max(listed.at) filter (where listed.since + $2 > greatest($3, $2)) + paced.whole
            ) as begins
        from (
            select given.at, sum(given.size) over (order by given.at desc, given.size) as since
            from unnest(c.slots_at, c.slot_sizes) as given (at, size)
        ) as listed
    ) as slot
    left join lateral (
        select
            given.at,
            given.size,
            given.at < date_bin(paced.whole / 100, slot.begins, 'epoch') as is_apart
        from unnest(c.slots_at, c.slot_sizes) as given (at, size)
        where given.at > slot.begins - paced.whole
    ) as earlier on true
    group by slot.begins
)
returning
    extract(epoch from free_at - (select takes from paced))::double precision,
    extract(epoch from clock_timestamp())::double precision
"""

FORGET = """
delete from circuits
where changed_at < $1
    and (free_at is null or free_at < $1)
    and (state = 'closed' or coalesce(probe_until, retry_at, changed_at) < $1)
"""


async def troubled(connection: Connection) -> dict[str, CircuitRow]:
    """Read the circuit breakers that are not closed."""
    return {row["name"]: CircuitRow(**row) for row in await connection.fetch(TROUBLED)}


async def open_circuit(connection: Connection, opening: Opening, now: datetime) -> None:
    """Open a circuit breaker, or keep it open longer."""
    stored = msgspec.structs.replace(opening, code=storable(opening.code), detail=storable(opening.detail))
    await connection.execute(OPEN, *msgspec.structs.astuple(stored), now)


async def take_probe(connection: Connection, name: str, now: datetime, until: datetime) -> bool:
    """Take the one permission to probe a circuit breaker whose rest is over."""
    return await connection.fetchval(TAKE_PROBE, name, now, until) is not None


async def return_probe(connection: Connection, name: str, now: datetime) -> None:
    """Return a probe that was not used; it may be taken again at once."""
    await connection.execute(RETURN_PROBE, name, now)


async def end_rests(connection: Connection, provider: str, now: datetime) -> list[str]:
    """End the rest of every open circuit breaker of a provider and list them."""
    return sorted(row["name"] for row in await connection.fetch(END_RESTS, provider, now))


async def close_circuit(connection: Connection, name: str, now: datetime) -> bool:
    """Close a circuit breaker and return whether it was open.

    With the last one of a provider its alarms are cleared.
    """
    return bool(await connection.fetchval(CLOSE, name, now))


async def grant(
    connection: Connection,
    provider: str,
    count: int,
    most: float,
    ramp_seconds: float,
    *,
    within: float = 1.0,
) -> Slot:
    """Reserve the next slot for some messages: at most `most` of them begin `within` any so many seconds."""
    return Slot(*await connection.fetchrow(GRANT, provider, count, most, within, ramp_seconds))


async def forget_circuits(connection: Connection, before: datetime) -> None:
    """Delete circuit breakers that nobody has used for long, closed or not."""
    await connection.execute(FORGET, before)
