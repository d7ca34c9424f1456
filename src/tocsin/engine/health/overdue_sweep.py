"""The recovery sweep: counts overdue deliveries, logs them, and notifies the workers.

Claims take whatever is due, deliveries with an expired lease included, so the sweep should find nothing.
What it finds all the same shows a stall that would otherwise be silent.
"""

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime, timedelta

import msgspec
import structlog

from tocsin.domain.plan import FAN_OUT
from tocsin.domain.timing.schedule import Schedule
from tocsin.engine.clock import Clock
from tocsin.engine.duty import repeat
from tocsin.engine.periodic.claim import ClaimedRun, claim_run, register
from tocsin.store.deliveries.fan_out import waiting_lanes
from tocsin.store.health.overdue import Overdue, find_overdue, wake
from tocsin.store.health.provider_health import Alarm, raise_alarms
from tocsin.store.pool import Connection, Pool
from tocsin.store.sources import progress
from tocsin.store.sources.progress import Scheduled

NAME = "recovery-sweep"
SCHEDULED = Scheduled(name=NAME, kind="upkeep", schedule=Schedule("*/5 * * * *"))
LATE_AFTER = timedelta(minutes=1)
STALLED_AFTER = timedelta(minutes=15)
MOST_COUNTED = 10_000
LEASE_FOR = timedelta(minutes=1)
POLL_SECONDS = 5.0
OVERDUE = "overdue"
UNSERVED = "lane_unserved"

_log = structlog.stdlib.get_logger(__name__)


class Finding(msgspec.Struct, frozen=True):
    """The overdue deliveries of one lane; if `code` is set, an operator has to act."""

    overdue: Overdue
    detail: str
    code: str | None


def judge(
    overdue: Sequence[Overdue], before: Mapping[str, str], served: AbstractSet[str], now: datetime
) -> Iterator[Finding]:
    """Distinguish a stall from a backlog that is being worked off.

    `before` holds the oldest delivery of each lane at the previous sweep: if it is still the oldest,
    nothing is claimed. A lane that has no provider is reported as such.
    """
    for late in overdue:
        stalled = now - late.due_at > STALLED_AFTER and before.get(late.lane) == str(late.oldest)
        count = f"{late.count}{'+' if late.count >= MOST_COUNTED else ''}"
        detail = f"{count} overdue in lane {late.lane}, the oldest since {late.due_at:%Y-%m-%d %H:%M:%SZ}"
        code = OVERDUE if stalled else None
        if late.lane not in (FAN_OUT, *served):
            detail += f"; {late.lane} is not configured: configure it or cancel them"
            code = UNSERVED if stalled else None
        yield Finding(late, detail, code)


class Sweep:
    """Sweeps every five minutes, on one worker at a time."""

    def __init__(self, pool: Pool, served: AbstractSet[str], clock: Clock) -> None:
        self._pool = pool
        self._served = served
        self._clock = clock
        self._registered = False

    async def run(self) -> None:
        """Sweep until cancelled."""
        await repeat(self._sweep_if_due, name="overdue sweep", every=POLL_SECONDS)

    async def _sweep_if_due(self) -> None:
        now = self._clock()
        async with self._pool.acquire() as connection:
            if not self._registered:
                await register(connection, [SCHEDULED], now)
                self._registered = True
            for row in await progress.list_progress(connection):
                if row.name == NAME and (
                    claimed := await claim_run(
                        connection, row, SCHEDULED.schedule, lease_for=LEASE_FOR, now=now
                    )
                ):
                    await self._sweep(connection, claimed, now)

    async def _sweep(self, connection: Connection, claimed: ClaimedRun, now: datetime) -> None:
        lanes = await waiting_lanes(connection)
        overdue = await find_overdue(
            connection, lanes, due_before=now - LATE_AFTER, now=now, most=MOST_COUNTED
        )
        before: Mapping[str, str] = claimed.checkpoint.value or {}
        findings = list(judge(overdue, before, self._served, now))
        for finding in findings:
            _report(finding, now)
        late = {each.lane for each in overdue}
        on_time = [_subject(lane) for lane in sorted({FAN_OUT, *self._served, *before} - late)]
        alarms = {
            Alarm(_subject(each.overdue.lane), each.code, each.detail): 1 for each in findings if each.code
        }
        oldest = {each.lane: str(each.oldest) for each in overdue}
        note = "; ".join(finding.detail for finding in findings) or "no delivery is overdue"
        async with connection.transaction():
            if findings:
                await wake(connection)
            await progress.clear_alarms(connection, on_time, [OVERDUE, UNSERVED], now)
            if alarms:
                await raise_alarms(connection, alarms, now)
            await progress.seen(connection, [NAME], now)
            await progress.advance(connection, NAME, claimed.lease, now + LEASE_FOR, oldest)
            await progress.succeed(
                connection, NAME, claimed.lease, next_run_at=claimed.next_run_at, now=now, note=note
            )


def _subject(lane: str) -> str:
    return f"lane:{lane}"


def _report(finding: Finding, now: datetime) -> None:
    log = _log.error if finding.code else _log.warning
    log(
        "overdue deliveries found",
        lane=finding.overdue.lane,
        deliveries=finding.overdue.count,
        oldest_late_seconds=round((now - finding.overdue.due_at).total_seconds()),
        code=finding.code,
        detail=finding.detail,
        alarm=True if finding.code else None,
    )
