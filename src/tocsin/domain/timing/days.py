"""The periods in which limits count: a person's day and throttle windows."""

from datetime import UTC, date, datetime, timedelta, tzinfo

from tocsin.domain.timing.wall_clock import boundaries

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MIDNIGHT = 0


def local_day(now: datetime, zone: tzinfo) -> date:
    """Return the current date in a zone."""
    return now.astimezone(zone).date()


def next_local_day(now: datetime, zone: tzinfo) -> datetime:
    """Return the first instant, in UTC, that has a later date than now in a zone."""
    today = local_day(now, zone)
    return next(
        boundary for boundary in boundaries(now, zone, _MIDNIGHT) if boundary.date() > today
    ).astimezone(UTC)


def throttle_window(now: datetime, length: timedelta) -> tuple[datetime, datetime]:
    """Return the start (inclusive) and end (exclusive), in UTC, of the throttle window that contains `now`.

    Windows of one length follow each other from the start of 1970, so every worker computes the same ones.
    """
    if length <= timedelta(0):
        raise ValueError(f"the window of a throttle must be longer than 0, not {length}")
    start = _EPOCH + (now - _EPOCH) // length * length
    return start, start + length
