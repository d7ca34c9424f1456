"""Claiming a run: whether one is due, for which time of the schedule, and the lease on it."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial

import msgspec

from tocsin.domain.ids import LeaseId, new_lease_id
from tocsin.domain.timing.schedule import CatchUp, RunFor, Schedule, SkipTo, choose_run
from tocsin.engine.periodic.source import Source
from tocsin.engine.periodic.times import following, latest
from tocsin.store import progress
from tocsin.store.pool import Connection
from tocsin.store.progress import Begun, ProgressRow, Registration


class ClaimedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run under lease; `next_run_at` is when the one after it is due."""

    lease: LeaseId
    begun: Begun
    scheduled_for: datetime
    next_run_at: datetime


async def register(connection: Connection, sources: Sequence[Source], now: datetime) -> None:
    """Make producers known, those that are new with their first run ahead of them."""
    for source in sources:
        schedule = source.schedule
        await progress.register(
            connection,
            Registration(
                name=source.name,
                kind=source.kind,
                schedule=schedule.cron,
                timezone=schedule.timezone,
                catch_up=schedule.catch_up,
                value_type=source.value_type,
                initial=source.initial,
                next_run_at=following(schedule, now),
            ),
            now,
        )


async def claim_run(
    connection: Connection, row: ProgressRow, schedule: Schedule, *, lease_for: timedelta, now: datetime
) -> ClaimedRun | None:
    """Take the lease on a run if one is due and nobody else has it."""
    if not _is_due(row, now):
        return None
    # A run by request, or again after a failure, leaves the times of the schedule as they are.
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
    return ClaimedRun(lease=lease, begun=begun, scheduled_for=scheduled_for, next_run_at=next_run_at)


def _is_due(row: ProgressRow, now: datetime) -> bool:
    if row.leased_until is not None and row.leased_until > now:
        return False
    return row.run_requested_at is not None or (row.retry_at or row.next_run_at) <= now


def _catch_up(row: ProgressRow, schedule: Schedule) -> CatchUp:
    """Leave nothing out that was begun or asked for: only a run that nobody came to is missed."""
    begun = row.lease is not None or row.retry_at is not None or row.run_requested_at is not None
    return "last" if begun and schedule.catch_up == "none" else schedule.catch_up
