import re
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.domain.timing.windows import ALWAYS, Window, hold_until, parse_clock

HOUR = timedelta(hours=1)
NIGHT = datetime(2024, 5, 1, 3, tzinfo=UTC)


def opened_at(hour: int, minute: int = 0, second: int = 0) -> datetime:
    return datetime(2024, 5, 1, hour, minute, second, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("09:00-22:00", 540, 1320),
        ("9:00-22:00", 540, 1320),
        (" 09:30 - 17:45 ", 570, 1065),
        ("22:00-06:00", 1320, 360),
        ("22:00-24:00", 1320, 1440),
        ("22:00-00:00", 1320, 0),
        ("00:00-24:00", 0, 1440),
        ("always", 0, 1440),
        ("23:59-00:01", 1439, 1),
    ],
)
def test_windows_are_read(text: str, start: int, end: int) -> None:
    assert Window.parse(text) == Window(start, end)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "'' is not a window: write it as 09:00-22:00, or always"),
        ("never", "'never' is not a window"),
        ("09:00", "'09:00' is not a window"),
        ("09:00-", "'' is not a time of day: write it as 09:00, from 00:00 to 24:00"),
        ("09-22", "'09' is not a time of day"),
        ("09:00-22:00-23:00", "'22:00-23:00' is not a time of day"),
        ("09:00-22:60", "'22:60' is not a time of day"),
        ("09:00-24:01", "'24:01' is not a time of day"),
        ("09:00:30-22:00", "'09:00:30' is not a time of day"),
        ("-09:00-22:00", "'' is not a time of day"),
        ("\u0660\u0669:\u0660\u0660-22:00", "'\u0660\u0669:\u0660\u0660' is not a time of day"),
        ("24:00-06:00", "24:00-06:00 is not a window: it must start by 23:59 and end by 24:00"),
        ("09:00-09:00", "09:00-09:00 is an empty window: the whole day is 00:00-24:00"),
        ("00:00-00:00", "00:00-00:00 is an empty window"),
        ("x" * 100, f"'{'x' * 40}' is not a window"),
    ],
)
def test_what_is_no_window_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(complaint)}"):
        Window.parse(text)


def test_no_empty_window_can_be_made_from_stored_data() -> None:
    with pytest.raises(msgspec.ValidationError, match="empty window"):
        msgspec.json.decode(b'{"start": 540, "end": 540}', type=Window)


def test_times_are_minutes_of_the_day() -> None:
    assert [parse_clock(text) for text in ("00:00", "9:05", "23:59", "24:00")] == [0, 545, 1439, 1440]


@given(st.integers(0, 1439), st.integers(0, 1440))
def test_a_window_reads_back_as_it_is_written(start: int, end: int) -> None:
    if start != end:
        assert Window.parse(str(Window(start, end))) == Window(start, end)


@pytest.mark.parametrize(
    ("text", "quiet"),
    [
        ("09:00-22:00", "22:00-09:00"),
        ("22:00-06:00", "06:00-22:00"),
        ("08:00-24:00", "00:00-08:00"),
        ("always", "none"),
    ],
)
def test_a_window_names_its_quiet_hours(text: str, quiet: str) -> None:
    assert Window.parse(text).quiet == quiet


@pytest.mark.parametrize(
    ("window", "spread", "random", "expected"),
    [
        ("09:00-22:00", timedelta(0), 0.0, opened_at(9, 1)),
        ("09:00-22:00", timedelta(0), 0.9, opened_at(9, 1)),
        ("09:00-22:00", HOUR, 0.0, opened_at(9, 1)),
        ("09:00-22:00", HOUR, 0.5, opened_at(9, 31)),
        ("09:00-22:00", timedelta(minutes=10), 0.25, opened_at(9, 3, 30)),
        # A spread wider than the window fills what is left of it, evenly.
        ("09:00-10:01", 24 * HOUR, 0.5, opened_at(9, 31)),
        ("09:00-09:02", HOUR, 0.5, opened_at(9, 1, 30)),
        # One minute is too short for the minute that is otherwise kept free.
        ("09:00-09:01", timedelta(0), 0.5, opened_at(9)),
        ("09:00-09:01", HOUR, 0.5, opened_at(9, 0, 30)),
    ],
)
def test_what_was_held_leaves_spread_over_the_opening(
    window: str, spread: timedelta, random: float, expected: datetime
) -> None:
    assert hold_until(NIGHT, UTC, Window.parse(window), spread=spread, random=random) == expected


def test_rounding_never_reaches_the_end_of_the_window() -> None:
    held = hold_until(NIGHT, UTC, Window.parse("09:00-22:00"), spread=24 * HOUR, random=1 - 2**-53)
    assert held == opened_at(22) - timedelta.resolution


def test_an_hour_that_comes_twice_gives_the_spread_more_room() -> None:
    # On 3 November 2024 New York has 01:00 to 02:00 twice, so this window is open for two hours.
    now = datetime.fromisoformat("2024-11-03T00:59:00-04:00")
    held = hold_until(
        now, ZoneInfo("America/New_York"), Window.parse("01:00-02:00"), spread=24 * HOUR, random=0.75
    )
    assert held == datetime.fromisoformat("2024-11-03T01:30:15-05:00")


def test_the_moment_does_not_depend_on_the_offset_in_which_now_is_given() -> None:
    tokyo = NIGHT.astimezone(ZoneInfo("Asia/Tokyo"))
    window = Window.parse("09:00-22:00")
    assert hold_until(tokyo, UTC, window) == hold_until(NIGHT, UTC, window) == opened_at(9, 1)


def test_a_moment_without_an_offset_is_refused() -> None:
    with pytest.raises(ValueError, match="2024-05-01T03:00:00 has none"):
        hold_until(NIGHT.replace(tzinfo=None), UTC, ALWAYS)
