"""Whose quiet hours hold: the person's own, the category's or the deployment's."""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from functools import lru_cache
from typing import Literal, Self

import msgspec

from tocsin.domain.faults import Fault
from tocsin.domain.timing.windows import ALWAYS, Window, parse_clock
from tocsin.domain.timing.zones import is_known_zone

WindowSource = Literal["person", "category", "deployment", "disabled"]

WIDEST_SPREAD = 24 * 60 * 60


class QuietHoursSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When people may be disturbed: from `start` to `end` in their own time.

    `categories` gives a category its own window, such as `08:00-23:00` or `always`. `spread_seconds` is how
    long after the opening the last of what was held may leave.
    """

    enabled: bool = True
    start: str = "09:00"
    end: str = "22:00"
    spread_seconds: int = 0
    default_timezone: str = "UTC"
    categories: dict[str, str] = {}


class WindowChoice(msgspec.Struct, frozen=True, kw_only=True):
    """The window that holds, where it came from, and what is wrong with the person's own, if anything."""

    window: Window
    source: WindowSource
    malformed: str | None = None


class QuietHours(msgspec.Struct, frozen=True, kw_only=True):
    """The settings, read once and ready for use."""

    enabled: bool
    window: Window
    categories: Mapping[str, Window]
    spread: timedelta
    default_timezone: str

    @classmethod
    def compile(cls, settings: QuietHoursSettings) -> Self:
        """Read settings that have no faults."""
        return cls(
            enabled=settings.enabled,
            window=Window(parse_clock(settings.start), parse_clock(settings.end)),
            categories={category: Window.parse(text) for category, text in settings.categories.items()},
            spread=timedelta(seconds=settings.spread_seconds),
            default_timezone=settings.default_timezone,
        )

    def window_for(self, category: str, person_window: str | None) -> WindowChoice:
        """Take the person's own window, else the category's, else the deployment's."""
        if not self.enabled:
            return WindowChoice(window=ALWAYS, source="disabled")
        malformed = None
        if person_window is not None:
            own = _read(person_window)
            if isinstance(own, Window):
                return WindowChoice(window=own, source="person")
            malformed = own
        found = self.categories.get(category)
        if found is not None:
            return WindowChoice(window=found, source="category", malformed=malformed)
        return WindowChoice(window=self.window, source="deployment", malformed=malformed)


def quiet_hours_faults(settings: QuietHoursSettings) -> Iterator[Fault]:
    """Find what cannot be read in the settings of quiet hours."""
    unreadable = list(_clock_faults(settings))
    yield from unreadable
    if not unreadable:
        problem = _read(f"{settings.start}-{settings.end}")
        if isinstance(problem, str):
            yield Fault(field="quiet_hours.start", code="invalid", message=problem)
    if not 0 <= settings.spread_seconds <= WIDEST_SPREAD:
        message = f"must be from 0 to {WIDEST_SPREAD}, not {settings.spread_seconds}"
        yield Fault(field="quiet_hours.spread_seconds", code="out_of_range", message=message)
    if not is_known_zone(settings.default_timezone):
        message = f"there is no time zone {settings.default_timezone!r}: write a name such as Europe/Istanbul"
        yield Fault(field="quiet_hours.default_timezone", code="unknown_timezone", message=message)
    for category, text in settings.categories.items():
        problem = _read(text)
        if isinstance(problem, str):
            yield Fault(field=f"quiet_hours.categories.{category}", code="invalid", message=problem)


def _clock_faults(settings: QuietHoursSettings) -> Iterator[Fault]:
    for name, text in (("start", settings.start), ("end", settings.end)):
        try:
            parse_clock(text)
        except ValueError as error:
            yield Fault(field=f"quiet_hours.{name}", code="invalid", message=str(error))


@lru_cache(maxsize=4096)
def _read(text: str) -> Window | str:
    """Read a window, or say what is wrong with it."""
    try:
        return Window.parse(text)
    except ValueError as error:
        return str(error)
