"""Conversion between wall time in a zone and instants in UTC, across clock changes."""

from bisect import bisect_left
from collections.abc import Iterator
from datetime import UTC, datetime, time, timedelta, tzinfo

DAY_MINUTES = 24 * 60
_DAY = timedelta(days=1)
_SECOND = timedelta(seconds=1)


def instant_of(wall: datetime, zone: tzinfo) -> datetime:
    """Return the first instant, in UTC, at which a clock in the zone shows a naive wall time.

    A wall time that is skipped when clocks go forward becomes the first instant after the gap.
    """
    if wall.tzinfo is not None:
        raise ValueError(f"a wall time must have no offset, but {wall.isoformat()} has one")
    instant = wall.replace(tzinfo=zone, fold=0).astimezone(UTC)
    if instant.astimezone(zone).replace(tzinfo=None) == wall:
        return instant
    # Inside a gap, fold=1 uses the later offset, which results in an instant before the change.
    before = wall.replace(tzinfo=zone, fold=1).astimezone(UTC)
    return _clock_change(before, instant, zone)


def boundaries(moment: datetime, zone: tzinfo, edge: int) -> Iterator[datetime]:
    """Yield, without end, each later local time at which the clock shows `edge` or changes its offset.

    `edge` is a minute of the day. What depends only on whether the wall time is before or after the edge
    can change at a boundary and nowhere else.
    """
    now = moment.astimezone(UTC)
    local = now.astimezone(zone)
    while True:
        ahead = now + _until(local, edge)
        there = ahead.astimezone(zone)
        if there.utcoffset() != local.utcoffset():
            ahead = _clock_change(now, ahead, zone)
            there = ahead.astimezone(zone)
        yield there
        now, local = ahead, there


def _until(local: datetime, edge: int) -> timedelta:
    shown = local.replace(tzinfo=None) - datetime.combine(local, time.min)
    wait = timedelta(minutes=edge) - shown
    return wait if wait > timedelta(0) else wait + _DAY


def _clock_change(before: datetime, after: datetime, zone: tzinfo) -> datetime:
    """Return the offset change between two instants in UTC; no zone has two changes within two days."""
    start = before.replace(microsecond=0)
    offset = start.astimezone(zone).utcoffset()
    seconds = range(-((start - after) // _SECOND))
    return start + _SECOND * bisect_left(
        seconds, True, key=lambda second: (start + _SECOND * second).astimezone(zone).utcoffset() != offset
    )
