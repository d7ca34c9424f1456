from datetime import timedelta

import pytest

from tocsin.domain.timing.quiet_hours import (
    QuietHours,
    QuietHoursSettings,
    quiet_hours_faults,
    quiet_hours_rule,
)
from tocsin.domain.timing.windows import Window

QUIET = QuietHours.compile(
    QuietHoursSettings(
        start="08:00",
        end="21:30",
        spread_seconds=600,
        default_timezone="Europe/Istanbul",
        categories={"alarms": "always", "offers": "10:00-18:00"},
    )
)


def faults(settings: QuietHoursSettings) -> dict[str, str]:
    return {fault.field: fault.code for fault in quiet_hours_faults(settings)}


def test_the_settings_as_they_come_are_nine_to_ten() -> None:
    settings = QuietHoursSettings()
    assert faults(settings) == {}
    compiled = QuietHours.compile(settings)
    assert compiled.window == Window.parse("09:00-22:00")
    assert (compiled.spread, compiled.default_timezone) == (timedelta(0), None)


def test_the_settings_are_compiled() -> None:
    assert (QUIET.spread, QUIET.default_timezone) == (timedelta(minutes=10), "Europe/Istanbul")


@pytest.mark.parametrize(
    ("category", "own", "window", "source"),
    [
        ("news", None, "08:00-21:30", "deployment"),
        ("offers", None, "10:00-18:00", "category"),
        ("alarms", None, "always", "category"),
        ("news", "22:00-06:00", "22:00-06:00", "person"),
        ("offers", "07:00-23:00", "07:00-23:00", "person"),
        ("alarms", "12:00-13:00", "12:00-13:00", "person"),
        ("offers", "always", "always", "person"),
    ],
)
def test_the_closest_window_holds(category: str, own: str | None, window: str, source: str) -> None:
    chosen = QUIET.window_for(category, own)
    assert (chosen.window, chosen.source, chosen.malformed) == (Window.parse(window), source, None)


@pytest.mark.parametrize("own", ["", "late", "09:00-09:00", "25:00-26:00", "9-22"])
@pytest.mark.parametrize(
    ("category", "window", "source"),
    [("news", "08:00-21:30", "deployment"), ("offers", "10:00-18:00", "category")],
)
def test_a_malformed_window_of_a_person_is_reported_and_passed_over(
    own: str, category: str, window: str, source: str
) -> None:
    chosen = QUIET.window_for(category, own)
    assert (chosen.window, chosen.source) == (Window.parse(window), source)
    assert chosen.malformed is not None
    assert own.partition("-")[0] in chosen.malformed


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (QuietHoursSettings(start="00:00", end="24:00"), {}),
        (QuietHoursSettings(start="22:00", end="06:00"), {}),
        (QuietHoursSettings(start="nine"), {"quiet_hours.start": "invalid"}),
        (QuietHoursSettings(end="22"), {"quiet_hours.end": "invalid"}),
        (QuietHoursSettings(end="10-22:00"), {"quiet_hours.end": "invalid"}),
        (QuietHoursSettings(start="24:00"), {"quiet_hours.start": "invalid"}),
        (QuietHoursSettings(start="22:00"), {"quiet_hours.start": "invalid"}),
        (QuietHoursSettings(spread_seconds=-1), {"quiet_hours.spread_seconds": "out_of_range"}),
        (QuietHoursSettings(spread_seconds=86_401), {"quiet_hours.spread_seconds": "out_of_range"}),
        (QuietHoursSettings(default_timezone="Mars"), {"quiet_hours.default_timezone": "unknown_timezone"}),
        (
            QuietHoursSettings(categories={"news": "8-9", "offers": "always"}),
            {"quiet_hours.categories.news": "invalid"},
        ),
        (
            QuietHoursSettings(
                start="x", end="y", spread_seconds=-1, default_timezone="", categories={"a": ""}
            ),
            {
                "quiet_hours.start": "invalid",
                "quiet_hours.end": "invalid",
                "quiet_hours.spread_seconds": "out_of_range",
                "quiet_hours.default_timezone": "unknown_timezone",
                "quiet_hours.categories.a": "invalid",
            },
        ),
    ],
)
def test_every_fault_is_named(settings: QuietHoursSettings, expected: dict[str, str]) -> None:
    assert faults(settings) == expected


def test_a_fault_says_what_to_write() -> None:
    (fault,) = quiet_hours_faults(QuietHoursSettings(start="22:00"))
    assert str(fault) == "quiet_hours.start: 22:00-22:00 is an empty window: the whole day is 00:00-24:00"


@pytest.mark.parametrize(
    ("settings", "rule"),
    [
        (
            QuietHoursSettings(),
            "push waits from 22:00 to 09:00 in the person's time zone if that is known; others are not held",
        ),
        (
            QuietHoursSettings(channels=["push", "email"], default_timezone="Europe/Istanbul"),
            "push and email wait from 22:00 to 09:00 in the person's time zone, others in Europe/Istanbul",
        ),
        (QuietHoursSettings(enabled=False), "no quiet hours: everything is sent when it is due"),
    ],
)
def test_the_rule_in_force_is_described(settings: QuietHoursSettings, rule: str) -> None:
    assert quiet_hours_rule(settings) == rule
