"""Claiming a run: whether one is due, for which time of the schedule, and the lease on it."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from functools import partial

import msgspec

from tocsin.domain.ids import LeaseId, new_lease_id
from tocsin.domain.timing.schedule import CatchUp, RunFor, Schedule, SkipTo, choose_run
from tocsin.engine.periodic.times import following, latest
from tocsin.periodic import Checkpoint
from tocsin.store.pool import Connection
from tocsin.store.sources import progress
from tocsin.store.sources.progress import ProgressRow, Scheduled


class ClaimedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run under lease; `next_run_at` is when the one after it is due, `failures` those before it."""

    lease: LeaseId
    checkpoint: Checkpoint
    next_run_at: datetime
    failures: int


async def register(connection: Connection, scheduled: Iterable[Scheduled], now: datetime) -> None:
    """Register what a worker can run; a new one first runs at the next time of its schedule."""
    for one in scheduled:
        await progress.register(connection, one, next_run_at=following(one.schedule, now), now=now)


async def claim_run(
    connection: Connection, row: ProgressRow, schedule: Schedule, *, lease_for: timedelta, now: datetime
) -> ClaimedRun | None:
    """Claim the lease on a run; None if none is due or another worker has it."""
    if not _is_due(row, now):
        return None
    # A requested run, or a retry after a failure, leaves the next scheduled run as it is.
    scheduled_for, next_run_at = now, row.next_run_at
    if row.next_run_at <= now:
        due = choose_run(
            row.next_run_at,
            now,
            _catch_up(row, schedule),
            latest=partial(latest, schedule),
            following=partial(following, schedule),
        )
        match due:
            case SkipTo(slot):
                await progress.skip(connection, row.name, seen_next=row.next_run_at, to=slot)
                return None
            case RunFor(slot):
                scheduled_for, next_run_at = slot, following(schedule, slot)
    lease = new_lease_id()
    begun = await progress.begin(
        connection, row.name, seen_next=row.next_run_at, lease=lease, until=now + lease_for, now=now
    )
    if begun is None:
        return None
    checkpoint = Checkpoint(
        value=begun.last_value, scheduled_for=scheduled_for, last_success_at=begun.last_success_at
    )
    return ClaimedRun(lease=lease, checkpoint=checkpoint, next_run_at=next_run_at, failures=begun.failures)


def _is_due(row: ProgressRow, now: datetime) -> bool:
    if row.leased_until is not None and row.leased_until > now:
        return False
    return row.run_requested_at is not None or (row.retry_at or row.next_run_at) <= now


def _catch_up(row: ProgressRow, schedule: Schedule) -> CatchUp:
    """Return the catch-up policy; a run that was begun or requested is not missed, so it is never skipped."""
    begun = row.lease is not None or row.retry_at is not None or row.run_requested_at is not None
    return "last" if begun and schedule.catch_up == "none" else schedule.catch_up
