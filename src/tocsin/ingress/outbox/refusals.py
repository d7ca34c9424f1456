"""Rows that failed: when they are retried, and who hears of it."""

import logging
from collections import Counter
from collections.abc import Sequence
from datetime import datetime

import structlog

from tocsin.domain.delivery.backoff import delay, parse_backoff
from tocsin.ingress.outbox.rows import Failed, Row
from tocsin.store.health.provider_health import Alarm, raise_alarms, storable
from tocsin.store.pool import Pool

BACKOFF = parse_backoff("ladder(1m, 5m, 15m, 1h, 6h, 1d)")
ALARM_AFTER = 5
MOST_ATTEMPTS = 32_767
"""As many as the smallest column of numbers has."""
LONGEST_ERROR = 1_000

_log = structlog.stdlib.get_logger(__name__)


def refused(row: Row, error: str, now: datetime) -> Failed:
    """Build the result of a row that failed once more."""
    # The column is the application's, and so is what it holds.
    attempts = min(max(row.failed_attempts, 0) + 1, MOST_ATTEMPTS)
    return Failed(
        id=row.id,
        attempts=attempts,
        retry_at=now + delay(BACKOFF, attempts, 0.0),
        error=storable(error)[:LONGEST_ERROR],
    )


async def report(outbox: str, failures: Sequence[Failed], pool: Pool, now: datetime) -> None:
    """Log every refusal, and raise alarms for rows that were refused too often."""
    alarms: Counter[Alarm] = Counter()
    for failure in failures:
        alarm = failure.attempts >= ALARM_AFTER
        _log.log(
            logging.ERROR if alarm else logging.WARNING,
            "outbox row refused",
            outbox=outbox,
            row=str(failure.id),
            attempts=failure.attempts,
            error=failure.error,
            alarm=alarm or None,
        )
        if alarm:
            detail = f"row {failure.id} was refused {failure.attempts} times: {failure.error}"
            alarms[Alarm(f"outbox:{outbox}", "row_refused", detail)] += 1
    if alarms:
        async with pool.acquire() as connection:
            await raise_alarms(connection, alarms, now)
