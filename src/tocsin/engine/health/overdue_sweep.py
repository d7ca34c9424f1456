"""The recovery sweep: what is past its time and taken by nobody is counted, told of, and waked for.

Claims take what is due, an expired lease included, so there should be nothing to find. What is found
all the same shows a stall that would otherwise be silent.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime, timedelta
from typing import get_args

import msgspec
import structlog

from tocsin.domain.catalog import Channel
from tocsin.domain.timing.schedule import Schedule
from tocsin.engine.clock import Clock
from tocsin.engine.periodic.claim import ClaimedRun, claim_run
from tocsin.engine.periodic.times import following
from tocsin.store import progress
from tocsin.store.deliveries.overdue import Overdue, find_overdue, wake
from tocsin.store.health.provider_health import Alarm, raise_alarms
from tocsin.store.pool import DATABASE_FAULTS, Connection, Pool
from tocsin.store.progress import Registration

NAME = "recovery-sweep"
EVERY_FIVE_MINUTES = Schedule("*/5 * * * *")
LATE_AFTER = timedelta(minutes=1)
STALLED_AFTER = timedelta(minutes=15)
MOST_COUNTED = 10_000
LEASE_FOR = timedelta(minutes=1)
LOOK_SECONDS = 5.0
OVERDUE = "overdue"
UNSERVED = "channel_unserved"

_CHANNELS: tuple[str, ...] = get_args(Channel)
_log = structlog.stdlib.get_logger(__name__)


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """What is late on one channel, and what to say of it; with a code, an operator has to act."""

    channel: str
    count: int
    late_by: timedelta
    said: str
    code: str | None


def judge(
    overdue: Sequence[Overdue], before: Mapping[str, str], served: AbstractSet[str], now: datetime
) -> Iterator[Finding]:
    """Tell a stall from a backlog that is being worked off.

    `before` names the delivery that waited the longest on each channel at the sweep before: where it
    still does, claims do not get on. A channel that this worker cannot serve is said to be so.
    """
    for late in overdue:
        late_by = now - late.due_at
        stalled = late_by > STALLED_AFTER and before.get(late.channel) == str(late.oldest)
        many = f"{late.count}{'+' if late.count >= MOST_COUNTED else ''} late by {late.channel}"
        said = f"{many}, the oldest since {late.due_at:%Y-%m-%d %H:%M:%SZ}"
        code = OVERDUE if stalled else None
        if late.channel not in served:
            said += f"; no provider for {late.channel} is set up: set one up or cancel them"
            code = UNSERVED if stalled else None
        yield Finding(channel=late.channel, count=late.count, late_by=late_by, said=said, code=code)


class Sweep:
    """Looks every five minutes, by one worker of all."""

    def __init__(self, pool: Pool, served: AbstractSet[str], clock: Clock) -> None:
        self._pool = pool
        self._served = served
        self._clock = clock
        self._known = False

    async def run(self) -> None:
        """Sweep until cancelled."""
        while True:
            try:
                await self._look()
            except DATABASE_FAULTS as error:
                _log.warning("sweeping failed, trying again", error=repr(error))
            await asyncio.sleep(LOOK_SECONDS)

    async def _look(self) -> None:
        now = self._clock()
        async with self._pool.acquire() as connection:
            if not self._known:
                await _register(connection, now)
                self._known = True
            rows = await progress.list_progress(connection)
            for row in rows:
                if row.name == NAME:
                    claimed = await claim_run(
                        connection, row, EVERY_FIVE_MINUTES, lease_for=LEASE_FOR, now=now
                    )
                    if claimed:
                        await self._sweep(connection, claimed, now)

    async def _sweep(self, connection: Connection, claimed: ClaimedRun, now: datetime) -> None:
        overdue = await find_overdue(
            connection, _CHANNELS, due_before=now - LATE_AFTER, now=now, most=MOST_COUNTED
        )
        before = claimed.begun.last_value or {}
        findings = list(judge(overdue, before, self._served, now))
        async with connection.transaction():
            if findings:
                await wake(connection)
            for finding in findings:
                _report(finding)
            late = {finding.channel for finding in findings}
            on_time = [_subject(channel) for channel in _CHANNELS if channel not in late]
            await progress.clear_recovered(connection, on_time, [OVERDUE, UNSERVED], now)
            alarms = {
                Alarm(_subject(finding.channel), finding.code, finding.said): 1
                for finding in findings
                if finding.code
            }
            if alarms:
                await raise_alarms(connection, alarms, now)
            await progress.seen(connection, [NAME], now)
            await progress.advance(
                connection,
                NAME,
                claimed.lease,
                now + LEASE_FOR,
                moved=True,
                value={late.channel: str(late.oldest) for late in overdue},
            )
            await progress.succeed(
                connection,
                NAME,
                claimed.lease,
                next_run_at=claimed.next_run_at,
                now=now,
                note="; ".join(finding.said for finding in findings) or "nothing is late",
            )


def _subject(channel: str) -> str:
    return f"channel:{channel}"


def _report(finding: Finding) -> None:
    log = _log.error if finding.code else _log.warning
    log(
        "deliveries are late",
        channel=finding.channel,
        deliveries=finding.count,
        oldest_late_seconds=round(finding.late_by.total_seconds()),
        code=finding.code,
        detail=finding.said,
        alarm=True if finding.code else None,
    )


async def _register(connection: Connection, now: datetime) -> None:
    await progress.register(
        connection,
        Registration(
            name=NAME,
            kind="upkeep",
            schedule=EVERY_FIVE_MINUTES.cron,
            timezone=EVERY_FIVE_MINUTES.timezone,
            catch_up=EVERY_FIVE_MINUTES.catch_up,
            value_type=None,
            initial=None,
            next_run_at=following(EVERY_FIVE_MINUTES, now),
        ),
        now,
    )
