"""The stretches of time in which limits count."""

from datetime import UTC, date, datetime, timedelta, tzinfo

from tocsin.domain.timing.wall_clock import boundaries

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MIDNIGHT = 0


def local_day(now: datetime, zone: tzinfo) -> date:
    """Give the date that a person in this zone has now."""
    return now.astimezone(zone).date()


def next_local_day(now: datetime, zone: tzinfo) -> datetime:
    """Give the instant, in UTC, at which a person in this zone first has a later date than now."""
    today = local_day(now, zone)
    return next(
        boundary for boundary in boundaries(now, zone, _MIDNIGHT) if boundary.date() > today
    ).astimezone(UTC)


def throttle_window(now: datetime, length: timedelta) -> tuple[datetime, datetime]:
    """Give the start and the end, in UTC, of the window that `now` lies in; the end belongs to the next.

    Windows of one length follow each other from the start of 1970, so every worker finds the same ones.
    """
    if length <= timedelta(0):
        raise ValueError(f"a throttle needs a window longer than nothing, not {length}")
    start = _EPOCH + (now - _EPOCH) // length * length
    return start, start + length
