"""Expires waiting deliveries that no claim looks at: those of a blocked lane, and those that are held."""

from datetime import datetime
from typing import NamedTuple

from tocsin.domain.delivery.states import WAITING
from tocsin.store.deliveries.claim import Position
from tocsin.store.deliveries.digests import NOT_BEING_SENT
from tocsin.store.pool import Connection

# A wall time falls at most 26 hours after the earliest zone's, from which the time to live is counted here; a
# claim knows the person's own zone.
_EXPIRE = f"""
, expired as (
    update deliveries as d
    set state = 'expired',
        settled_at = $2,
        held_by = null,
        decisions = coalesce(d.decisions, '[]') || jsonb_build_array(
            jsonb_build_object(
                'rule', 'time_to_live', 'result', 'skip', 'detail', 'its time to live ended while it waited',
                'at', $2::timestamptz
            )
        )
    from walked
    join notifications as n on n.id = walked.notification_id
    where d.id = walked.id
        and n.expires_at <= $2::timestamptz - case
            when n.send_at_local is null then interval '0' else interval '26 hours'
        end
        and d.state = any($6::text[])
        and {NOT_BEING_SENT}
    returning d.ordering_key
)
select
    (select count(*) from walked) as walked,
    (select count(*) from expired) as expired,
    (select (array_agg(due_at order by due_at desc, id desc))[1] from walked) as due_at,
    (select (array_agg(id order by due_at desc, id desc))[1] from walked) as id
"""  # noqa: S608 - made of constants

EXPIRE_DUE = f"""
with walked as materialized (
    select id, due_at, notification_id
    from deliveries
    where lane = $1
        and state in ('scheduled', 'pending', 'retrying')
        and due_at <= $2
        and (due_at, id) > ($3, $4)
    order by lane, due_at, id
    limit $5
)
{_EXPIRE}
"""  # noqa: S608 - made of constants

EXPIRE_HELD = f"""
with walked as materialized (
    select id, due_at, notification_id
    from deliveries
    where lane = $1
        and state in ('scheduled', 'pending', 'retrying')
        and due_at = 'infinity'
        and id > $4
        and $3::timestamptz is not null
    order by lane, due_at, id
    limit $5
)
{_EXPIRE}
"""  # noqa: S608 - made of constants


class Walked(NamedTuple):
    """How many deliveries were looked at and expired, and where to continue; None at the end."""

    expired: int
    next: Position | None


async def expire(
    connection: Connection, lane: str, now: datetime, *, held: bool, after: Position, limit: int
) -> Walked:
    """Expire the due or the held deliveries of a lane that are past their time to live, `limit` at a time."""
    statement = EXPIRE_HELD if held else EXPIRE_DUE
    row = await connection.fetchrow(statement, lane, now, after.due_at, after.id, limit, WAITING)
    at_end = row["walked"] < limit
    return Walked(
        row["expired"], None if at_end else Position(after.due_at if held else row["due_at"], row["id"])
    )
