"""Receipts of devices, and how many deliveries of each type were sent, delivered and opened."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

import msgspec

from tocsin.domain.delivery.receipts import ReceiptEvent, implied_events
from tocsin.store.pool import Connection
from tocsin.store.rows import fetch_all, transpose

SENT = "sent"
WINDOW = timedelta(minutes=1)


class Report(NamedTuple):
    """What a device reports of one delivery."""

    delivery_id: UUID
    event: ReceiptEvent


class ReceiptRow(msgspec.Struct, frozen=True, kw_only=True):
    """An event that the device of a delivery reported."""

    delivery_id: UUID
    event: str
    at: datetime


class CountedType(NamedTuple):
    """What is counted: deliveries of a type by a channel, sent on a day, and what happened to them."""

    day: datetime
    type: str
    channel: str
    event: str


class TypeRates(msgspec.Struct, frozen=True, kw_only=True):
    """How many deliveries of a type by a channel were sent, and what devices reported of them."""

    type: str
    channel: str
    sent: int
    delivered: int
    opened: int
    dismissed: int


# Locked in the order of their ids, to avoid deadlocks. Only what was sent can have arrived. No index helps to
# compare the user: while the table is new, the planner would read all deliveries of the person.
OWN = """
select
    d.id, d.channel, d.state, d.settled_at, coalesce(n.type, digests.type) as type,
    r.delivered_at, r.opened_at, r.dismissed_at
from deliveries as d
left join notifications as n on n.id = d.notification_id
left join digests on d.notification_id is null and digests.id = d.digest_id
left join receipts as r on r.delivery_id = d.id
where d.id = any($1::uuid[]) and d.user_id is not distinct from $2 and d.state in ('sent', 'delivered')
order by d.id
for update of d
"""

RECORD = """
insert into receipts (delivery_id, received_at, delivered_at, opened_at, dismissed_at)
select
    delivery_id, $5::timestamptz, case when delivered then $5 end, case when opened then $5 end,
    case when dismissed then $5 end
from unnest($1::uuid[], $2::boolean[], $3::boolean[], $4::boolean[])
    as given (delivery_id, delivered, opened, dismissed)
on conflict (delivery_id) do update
set delivered_at = coalesce(receipts.delivered_at, excluded.delivered_at),
    opened_at = coalesce(receipts.opened_at, excluded.opened_at),
    dismissed_at = coalesce(receipts.dismissed_at, excluded.dismissed_at)
"""

# What was opened was delivered at the same moment, unless that was reported before.
OF_DELIVERIES = """
select delivery_id, event, at
from receipts
cross join lateral (
    values (1, 'delivered', delivered_at), (2, 'opened', opened_at), (3, 'dismissed', dismissed_at)
) as reported (place, event, at)
where delivery_id = any($1::uuid[]) and at is not null
order by delivery_id, at, place
"""

CONFIRM = "update deliveries set state = 'delivered' where id = any($1::uuid[]) and state = 'sent'"

# Sorted, so that two processes never lock the same rows crosswise.
COUNT = """
insert into receipt_counts as counted (day, type, channel, event, count)
select day, type, channel, event, count
from unnest($1::timestamptz[], $2::text[], $3::text[], $4::text[], $5::bigint[])
    as given (day, type, channel, event, count)
order by day, type, channel, event
on conflict (day, type, channel, event) do update
set count = counted.count + excluded.count
"""

RATES = """
select
    type, channel,
    coalesce(sum(count) filter (where event = 'sent'), 0)::bigint as sent,
    coalesce(sum(count) filter (where event = 'delivered'), 0)::bigint as delivered,
    coalesce(sum(count) filter (where event = 'opened'), 0)::bigint as opened,
    coalesce(sum(count) filter (where event = 'dismissed'), 0)::bigint as dismissed
from receipt_counts
where day >= $1 and day <= $2 and ($3::text is null or type = $3)
group by type, channel
order by type, channel
"""

SPEND = """
insert into limit_counters as counter (key, window_ends_at, used)
values ($1, $2, $3)
on conflict (key, window_ends_at) do update
set used = counter.used + excluded.used
returning used
"""

OWNER = "select user_id from deliveries where id = $1"


async def owner(connection: Connection, delivery_id: UUID) -> str | None:
    """Return the user whom a delivery is for."""
    user_id: str | None = await connection.fetchval(OWNER, delivery_id)
    return user_id


async def spend(connection: Connection, user_id: str, receipts: int, now: datetime) -> int:
    """Count receipts of a person against this minute; return how many there are with them."""
    ends_at = now.replace(second=0, microsecond=0) + WINDOW
    used: int = await connection.fetchval(SPEND, receipts_key(user_id), ends_at, receipts)
    return used


def receipts_key(user_id: str) -> str:
    """Return the key that counts the receipts of a person."""
    return f"receipts:{user_id}"


async def record(
    connection: Connection, user_id: str, reports: Sequence[Report], now: datetime
) -> Mapping[UUID, set[ReceiptEvent]]:
    """Record reports about deliveries of a person; return what is new for each of those that are theirs.

    One of somebody else, or that was not sent, is left out. Runs in a transaction.
    """
    reported: dict[UUID, set[ReceiptEvent]] = {}
    for report in reports:
        reported.setdefault(report.delivery_id, set()).update(implied_events(report.event))
    new: dict[UUID, set[ReceiptEvent]] = {}
    counts: Counter[CountedType] = Counter()
    for row in await connection.fetch(OWN, sorted(reported), user_id):
        events = {event for event in reported[row["id"]] if row[f"{event}_at"] is None}
        new[row["id"]] = events
        day = row["settled_at"].replace(hour=0, minute=0, second=0, microsecond=0)
        counts.update(CountedType(day, row["type"], row["channel"], event) for event in events)
    changed = {delivery_id: events for delivery_id, events in new.items() if events}
    if changed:
        columns = [
            [event in events for events in changed.values()] for event in ("delivered", "opened", "dismissed")
        ]
        await connection.execute(RECORD, list(changed), *columns, now)
        await connection.execute(CONFIRM, list(changed))
        await count(connection, counts)
    return new


async def of_deliveries(connection: Connection, delivery_ids: Sequence[UUID]) -> list[ReceiptRow]:
    """Read what devices reported of deliveries, in order."""
    return await fetch_all(connection, ReceiptRow, OF_DELIVERIES, delivery_ids)


async def count(connection: Connection, counts: Mapping[CountedType, int]) -> None:
    """Add to the counts of types."""
    columns = transpose(counts, CountedType._fields)
    await connection.execute(COUNT, *columns, list(counts.values()))


async def rates(
    connection: Connection, first: datetime, last: datetime, type_: str | None = None
) -> list[TypeRates]:
    """Read the counts of deliveries that were sent from one day to another, by type and channel."""
    return await fetch_all(connection, TypeRates, RATES, first, last, type_)
