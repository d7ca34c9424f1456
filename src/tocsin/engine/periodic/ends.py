"""Records how a run ended: when the next one is due, and an alarm about one that fails again and again."""

from datetime import datetime, timedelta

from tocsin.domain.timing.schedule import pause_after
from tocsin.engine.periodic.claim import ClaimedRun
from tocsin.store.health.provider_health import Alarm, raise_alarms
from tocsin.store.pool import Pool
from tocsin.store.sources import progress

ALARM_AFTER = 5
ALARM_CODE = "periodic_failed"


async def record_success(
    pool: Pool, name: str, claimed: ClaimedRun, now: datetime, note: str | None = None
) -> bool:
    """End a run that succeeded and clear its alarm; return False if the lease was lost."""
    async with pool.acquire() as connection, connection.transaction():
        ended = await progress.succeed(
            connection, name, claimed.lease, next_run_at=claimed.next_run_at, now=now, note=note
        )
        if ended and claimed.failures >= ALARM_AFTER:
            await progress.clear_alarms(connection, [_alarm_subject(name)], [ALARM_CODE], now)
    return ended


async def record_failure(pool: Pool, name: str, claimed: ClaimedRun, error: Exception, now: datetime) -> None:
    """End a run that failed, to be retried after a pause."""
    message = describe(error)
    async with pool.acquire() as connection, connection.transaction():
        failures = await progress.fail(
            connection, name, claimed.lease, retry_at=now + retry_after(claimed), error=message
        )
        if failures is not None and failures >= ALARM_AFTER:
            detail = f"failed {failures} times in a row: {message}"
            await raise_alarms(connection, {Alarm(_alarm_subject(name), ALARM_CODE, detail): 1}, now)


def retry_after(claimed: ClaimedRun) -> timedelta:
    """Return the pause after a run that failed."""
    return pause_after(claimed.failures + 1)


def describe(error: Exception) -> str:
    """Return what operators see of an error."""
    return f"{type(error).__name__}: {error}"


def _alarm_subject(name: str) -> str:
    return f"periodic:{name}"
