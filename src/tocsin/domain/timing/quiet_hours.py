"""Quiet hours: the settings, and whether the person's, the category's or the deployment's window applies."""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from functools import lru_cache
from typing import Literal, Self

import msgspec

from tocsin.domain.catalog import Channel
from tocsin.domain.faults import Fault
from tocsin.domain.timing.windows import Window, parse_clock
from tocsin.domain.timing.zones import is_known_timezone

WindowSource = Literal["person", "category", "deployment"]

WIDEST_SPREAD = 24 * 60 * 60


class QuietHoursSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When people may be notified: from `start` to `end` in their own time zone.

    It applies to `channels`, and to people whose time zone is known, or to all with a `default_timezone`.
    `categories` sets a window per category, such as `08:00-23:00` or `always`. Deliveries held during
    quiet hours are spread over `spread_seconds` after the window opens.
    """

    enabled: bool = True
    start: str = "09:00"
    end: str = "22:00"
    spread_seconds: int = 0
    default_timezone: str | None = None
    channels: list[Channel] = msgspec.field(default_factory=lambda: ["push"])
    categories: dict[str, str] = {}


class WindowChoice(msgspec.Struct, frozen=True, kw_only=True):
    """The window that applies, its source, and what is wrong with the person's own window, if anything."""

    window: Window
    source: WindowSource
    malformed: str | None = None


class QuietHours(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of quiet hours, parsed once."""

    enabled: bool
    window: Window
    categories: Mapping[str, Window]
    spread: timedelta
    default_timezone: str | None
    channels: frozenset[Channel]

    @classmethod
    def compile(cls, settings: QuietHoursSettings) -> Self:
        """Parse settings that have no faults."""
        return cls(
            enabled=settings.enabled,
            window=Window(parse_clock(settings.start), parse_clock(settings.end)),
            categories={category: Window.parse(text) for category, text in settings.categories.items()},
            spread=timedelta(seconds=settings.spread_seconds),
            default_timezone=settings.default_timezone,
            channels=frozenset(settings.channels),
        )

    def window_for(self, category: str, person_window: str | None) -> WindowChoice:
        """Return the person's own window, else the category's, else the deployment's."""
        own = None if person_window is None else _parse(person_window)
        if isinstance(own, Window):
            return WindowChoice(window=own, source="person")
        if (found := self.categories.get(category)) is not None:
            return WindowChoice(window=found, source="category", malformed=own)
        return WindowChoice(window=self.window, source="deployment", malformed=own)


def quiet_hours_rule(settings: QuietHoursSettings) -> str:
    """Describe the rule in force, for an operator."""
    if not settings.enabled or not settings.channels:
        return "no quiet hours: everything is sent when it is due"
    channels = " and ".join(settings.channels)
    zone = settings.default_timezone
    others = f", others in {zone}" if zone else " if that is known; others are not held"
    verb = "waits" if len(settings.channels) == 1 else "wait"
    return f"{channels} {verb} from {settings.end} to {settings.start} in the person's time zone{others}"


def quiet_hours_faults(settings: QuietHoursSettings) -> Iterator[Fault]:
    """List what is wrong with the settings of quiet hours."""
    windows = {f"categories.{category}": text for category, text in settings.categories.items()}
    unreadable = list(_clock_faults(settings))
    yield from unreadable
    if not unreadable:
        windows["start"] = f"{settings.start}-{settings.end}"
    if not 0 <= settings.spread_seconds <= WIDEST_SPREAD:
        message = f"must be from 0 to {WIDEST_SPREAD}, not {settings.spread_seconds}"
        yield Fault(field="quiet_hours.spread_seconds", code="out_of_range", message=message)
    if settings.default_timezone is not None and not is_known_timezone(settings.default_timezone):
        message = f"{settings.default_timezone!r} is not a time zone: write a name such as Europe/Istanbul"
        yield Fault(field="quiet_hours.default_timezone", code="unknown_timezone", message=message)
    for name, text in windows.items():
        problem = _parse(text)
        if isinstance(problem, str):
            yield Fault(field=f"quiet_hours.{name}", code="invalid", message=problem)


def _clock_faults(settings: QuietHoursSettings) -> Iterator[Fault]:
    for name, text in (("start", settings.start), ("end", settings.end)):
        try:
            parse_clock(text)
        except ValueError as error:
            yield Fault(field=f"quiet_hours.{name}", code="invalid", message=str(error))


@lru_cache(maxsize=4096)
def _parse(text: str) -> Window | str:
    """Parse a window, or return what is wrong with it."""
    try:
        return Window.parse(text)
    except ValueError as error:
        return str(error)
