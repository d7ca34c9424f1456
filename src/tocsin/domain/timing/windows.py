"""The hours in which a person may be disturbed, and how long to hold what comes at another time."""

import re
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Self

import msgspec

from tocsin.domain.timing.wall_clock import DAY_MINUTES, boundaries

_CLOCK = re.compile(r"(?P<hour>\d{1,2}):(?P<minute>[0-5]\d)", re.ASCII)
_SHOWN = 40
_LEAD = timedelta(minutes=1)
_NONE = timedelta(0)


class Window(msgspec.Struct, frozen=True):
    """The allowed part of a person's day: minutes of the day from `start` up to, but not with, `end`.

    An `end` before `start` lies on the next day. 1,440 is the midnight at which the day ends.
    """

    start: int
    end: int

    def __post_init__(self) -> None:
        if not (0 <= self.start < DAY_MINUTES and 0 <= self.end <= DAY_MINUTES):
            raise ValueError(f"{self} is no window: it starts by 23:59 and ends by 24:00")
        if self.start == self.end:
            raise ValueError(f"{self} is an empty window: the whole day is 00:00-24:00")

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `09:00-22:00`, `22:00-06:00` across midnight, or `always`."""
        if text.strip() == "always":
            return cls(0, DAY_MINUTES)
        start, hyphen, end = text.partition("-")
        if not hyphen:
            raise ValueError(f"{text[:_SHOWN]!r} is no window: write it as 09:00-22:00, or always")
        return cls(parse_clock(start.strip()), parse_clock(end.strip()))

    def is_open(self, local: datetime) -> bool:
        """Tell whether a local time lies in the window."""
        minute = local.hour * 60 + local.minute
        if self.start < self.end:
            return self.start <= minute < self.end
        return minute >= self.start or minute < self.end

    @property
    def quiet(self) -> str:
        """Name the hours that the window leaves out."""
        if self == ALWAYS:
            return "none"
        return f"{_shown(self.end % DAY_MINUTES)}-{_shown(self.start)}"

    def __str__(self) -> str:
        """Write the window as it is read."""
        return f"{_shown(self.start)}-{_shown(self.end)}"


ALWAYS = Window(0, DAY_MINUTES)


def hold_until(
    now: datetime, zone: tzinfo, window: Window, *, spread: timedelta = _NONE, random: float = 0.0
) -> datetime | None:
    """Give None if a person in this zone may be disturbed now, else the moment to wait for, in UTC.

    That is a minute after the window opens, and `random`, which lies in [0, 1), of the spread later. A window
    too short for that is used from its opening to its end.
    """
    if now.tzinfo is None:
        raise ValueError(f"now needs an offset, and {now.isoformat()} has none")
    if window.is_open(now.astimezone(zone)):
        return None
    opening = next(boundary for boundary in boundaries(now, zone, window.start) if window.is_open(boundary))
    closing = next(
        boundary for boundary in boundaries(opening, zone, window.end) if not window.is_open(boundary)
    )
    # Python subtracts times of one zone by what the clock shows; in UTC it is the time that passes.
    opened = opening.astimezone(UTC)
    room = closing.astimezone(UTC) - opened
    lead = _LEAD if room > _LEAD else _NONE
    return opened + min(lead + random * min(spread, room - lead), room - timedelta.resolution)


def parse_clock(text: str) -> int:
    """Read a time such as `09:00` or `24:00` as a minute of the day."""
    found = _CLOCK.fullmatch(text)
    minute = int(found["hour"]) * 60 + int(found["minute"]) if found else DAY_MINUTES + 1
    if minute > DAY_MINUTES:
        raise ValueError(f"{text[:_SHOWN]!r} is no time of day: write it as 09:00, from 00:00 to 24:00")
    return minute


def _shown(minute: int) -> str:
    return f"{minute // 60:02}:{minute % 60:02}"
