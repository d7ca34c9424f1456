"""Devices not seen for long: marked as stale first, retired later."""

from datetime import datetime, timedelta

from tocsin.domain.people.devices import DeviceSettings, RetiredReason
from tocsin.store.pool import Connection

# Updates the devices unseen the longest, in index order. Rows locked by a registration or a settlement
# are skipped; the next call updates them if they are still unseen.
_UPDATE_UNSEEN = """
with unseen as materialized (
    select id
    from devices
    where {condition}
        and last_seen_at < $1
        and provider <> 'webhook'
    order by last_seen_at
    limit $2
    for update skip locked
)
update devices
set {change}
from unseen
where devices.id = unseen.id
returning devices.id
"""
MARK_STALE = _UPDATE_UNSEEN.format(
    condition="retired_at is null and stale_at is null", change="stale_at = $3"
)
RETIRE_UNSEEN = _UPDATE_UNSEEN.format(
    condition="retired_at is null", change="retired_at = $3, retired_reason = $4"
)


async def mark_stale(connection: Connection, now: datetime, settings: DeviceSettings, limit: int) -> int:
    """Mark at most `limit` devices not seen for `stale_after_days` as stale; return how many."""
    if settings.stale_after_days == 0:
        return 0
    before = now - timedelta(days=settings.stale_after_days)
    return len(await connection.fetch(MARK_STALE, before, limit, now))


async def retire_unseen(connection: Connection, now: datetime, settings: DeviceSettings, limit: int) -> int:
    """Retire at most `limit` devices not seen for `retire_after_days`; return how many."""
    if settings.retire_after_days == 0:
        return 0
    before = now - timedelta(days=settings.retire_after_days)
    return len(await connection.fetch(RETIRE_UNSEEN, before, limit, now, RetiredReason.UNSEEN))
