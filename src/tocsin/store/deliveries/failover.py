"""Ends what waits and is not needed once another was sent: its fallback, or a newer one that replaces it."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from tocsin.domain.delivery.states import WAITING
from tocsin.store.pool import Connection

# The limits keep each step an index look-up. What is under lease is on its way; if that fails, SUPERSEDE_LATE
# finds it.
_SUPERSEDE = """
update deliveries
set state = 'cancelled',
    reason = 'superseded_by_failover',
    settled_at = $2,
    held_by = null,
    decisions = coalesce(decisions, '[]') || jsonb_build_array(
        jsonb_build_object(
            'rule', 'failover', 'result', 'skip', 'detail', 'the fallback was sent first',
            'at', $2::timestamptz
        )
    )
where id in ({superseded})
returning ordering_key
"""

SUPERSEDE = _SUPERSEDE.format(
    superseded="""
    select first.id
    from unnest($1::uuid[]) as given (id)
    join deliveries as fallback on fallback.id = given.id
    cross join lateral (
        select deliveries.id
        from deliveries
        where deliveries.notification_id = fallback.notification_id
            and deliveries.user_id = fallback.user_id
            and deliveries.channel = fallback.fallback_for
            and deliveries.state = any($3::text[])
            and (deliveries.leased_until is null or deliveries.leased_until <= $2)
        order by deliveries.id
        limit 1000
        for update skip locked
    ) as first
"""
)

SUPERSEDE_LATE = _SUPERSEDE.format(
    superseded="""
    select first.id
    from unnest($1::uuid[]) as given (id)
    cross join lateral (
        select deliveries.id
        from deliveries
        where deliveries.id = given.id
            and deliveries.state = any($3::text[])
            and deliveries.lease is null
            and (
                select true
                from deliveries as fallback
                where fallback.notification_id = deliveries.notification_id
                    and fallback.user_id = deliveries.user_id
                    and fallback.fallback_for = deliveries.channel
                    and fallback.state in ('sent', 'delivered')
                limit 1
            ) is not null
        limit 1
        for update skip locked
    ) as first
"""
)


# A message that was sent replaces older ones with its collapse key that still wait.
COLLAPSE_OLDER = """
update deliveries
set state = 'skipped',
    reason = 'collapsed',
    settled_at = $2,
    held_by = null,
    decisions = coalesce(decisions, '[]') || jsonb_build_array(
        jsonb_build_object(
            'rule', 'collapse_key', 'result', 'skip',
            'detail', 'a newer one with the same collapse key was sent', 'at', $2::timestamptz
        )
    )
where id in (
    select older.id
    from unnest($1::uuid[]) as given (id)
    join deliveries as sent on sent.id = given.id
    cross join lateral (
        select deliveries.id
        from deliveries
        where deliveries.collapse_key = sent.collapse_key
            and deliveries.accept_order < sent.accept_order
            and deliveries.user_id is not distinct from sent.user_id
            and deliveries.address is not distinct from sent.address
            and state in ('scheduled', 'pending', 'retrying')
            and (leased_until is null or leased_until <= $2)
        order by deliveries.accept_order
        limit 1000
        for update skip locked
    ) as older
)
"""


async def supersede(connection: Connection, fallbacks: Sequence[UUID], now: datetime) -> list[str]:
    """Cancel what waits by the channel that sent fallbacks stand in for; return ordering keys to release."""
    return _keys(await connection.fetch(SUPERSEDE, fallbacks, now, WAITING))


async def supersede_late(connection: Connection, failed: Sequence[UUID], now: datetime) -> list[str]:
    """Cancel failed deliveries whose fallback was sent meanwhile; return ordering keys to release."""
    return _keys(await connection.fetch(SUPERSEDE_LATE, failed, now, WAITING))


def _keys(rows: Sequence[Any]) -> list[str]:
    return [row["ordering_key"] for row in rows if row["ordering_key"] is not None]


async def collapse_older(connection: Connection, sent: Sequence[UUID], now: datetime) -> None:
    """Skip waiting deliveries that a newer one with the same collapse key has replaced."""
    await connection.execute(COLLAPSE_OLDER, sent, now)
