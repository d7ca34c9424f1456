"""The daily window in which a person may be notified, and the time until it opens."""

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
    """The allowed part of a day: minutes of the day from `start` (inclusive) to `end` (exclusive).

    An `end` before `start` lies on the next day. 1,440 is the midnight at the end of the day.
    """

    start: int
    end: int

    def __post_init__(self) -> None:
        if not (0 <= self.start < DAY_MINUTES and 0 <= self.end <= DAY_MINUTES):
            raise ValueError(f"{self} is not a window: it must start by 23:59 and end by 24:00")
        if self.start == self.end:
            raise ValueError(f"{self} is an empty window: the whole day is 00:00-24:00")

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse `09:00-22:00`, `22:00-06:00` across midnight, or `always`."""
        if text.strip() == "always":
            return cls(0, DAY_MINUTES)
        start, hyphen, end = text.partition("-")
        if not hyphen:
            raise ValueError(f"{text[:_SHOWN]!r} is not a window: write it as 09:00-22:00, or always")
        return cls(parse_clock(start.strip()), parse_clock(end.strip()))

    def is_open(self, local: datetime) -> bool:
        """Return whether a local time lies in the window."""
        minute = local.hour * 60 + local.minute
        if self.start < self.end:
            return self.start <= minute < self.end
        return minute >= self.start or minute < self.end

    @property
    def quiet(self) -> str:
        """Format the hours outside the window: the quiet hours."""
        if self == ALWAYS:
            return "none"
        return f"{_shown(self.end % DAY_MINUTES)}-{_shown(self.start)}"

    def __str__(self) -> str:
        """Format the window as `parse` reads it."""
        return f"{_shown(self.start)}-{_shown(self.end)}"


ALWAYS = Window(0, DAY_MINUTES)


def hold_until(
    now: datetime, zone: tzinfo, window: Window, *, spread: timedelta = _NONE, random: float = 0.0
) -> datetime | None:
    """Return None if the window is open now in this zone, else the time to hold until, in UTC.

    That is one minute after the window opens, plus `random` (in [0, 1)) times the spread. In a window too
    short for that, the times are spread from its opening to its end.
    """
    if now.tzinfo is None:
        raise ValueError(f"now must have an offset, and {now.isoformat()} has none")
    if window.is_open(now.astimezone(zone)):
        return None
    opening = next(boundary for boundary in boundaries(now, zone, window.start) if window.is_open(boundary))
    closing = next(
        boundary for boundary in boundaries(opening, zone, window.end) if not window.is_open(boundary)
    )
    # Python subtracts two times of one zone as wall times; in UTC the difference is elapsed time.
    opened = opening.astimezone(UTC)
    room = closing.astimezone(UTC) - opened
    lead = _LEAD if room > _LEAD else _NONE
    return opened + min(lead + random * min(spread, room - lead), room - timedelta.resolution)


def parse_clock(text: str) -> int:
    """Parse a time such as `09:00` or `24:00` into a minute of the day."""
    found = _CLOCK.fullmatch(text)
    minute = int(found["hour"]) * 60 + int(found["minute"]) if found else DAY_MINUTES + 1
    if minute > DAY_MINUTES:
        raise ValueError(f"{text[:_SHOWN]!r} is not a time of day: write it as 09:00, from 00:00 to 24:00")
    return minute


def _shown(minute: int) -> str:
    return f"{minute // 60:02}:{minute % 60:02}"
