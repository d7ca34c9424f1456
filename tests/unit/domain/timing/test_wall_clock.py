from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.domain.timing.wall_clock import instant_of

ZONES = sorted(available_timezones() - {"localtime"})
walls = st.datetimes(datetime.fromisoformat("1950-01-01"), datetime.fromisoformat("2037-12-31"))


@pytest.mark.parametrize(
    ("zone", "wall", "expected"),
    [
        ("Europe/Istanbul", "2024-05-01T09:00", "2024-05-01T09:00+03:00"),
        ("Asia/Kathmandu", "2024-12-31T23:59:59.5", "2024-12-31T23:59:59.5+05:45"),
        # What is skipped stands for the first moment after it.
        ("Europe/Berlin", "2024-03-31T01:59:59", "2024-03-31T01:59:59+01:00"),
        ("Europe/Berlin", "2024-03-31T02:00", "2024-03-31T03:00+02:00"),
        ("Europe/Berlin", "2024-03-31T02:59:59.999999", "2024-03-31T03:00+02:00"),
        ("Europe/Berlin", "2024-03-31T03:00", "2024-03-31T03:00+02:00"),
        ("Australia/Lord_Howe", "2024-10-06T02:15", "2024-10-06T02:30+11:00"),
        ("Antarctica/Troll", "2024-03-31T01:30", "2024-03-31T03:00+02:00"),
        ("America/Havana", "2024-03-10T00:00", "2024-03-10T01:00-04:00"),
        ("Pacific/Apia", "2011-12-29T23:59:59", "2011-12-29T23:59:59-10:00"),
        ("Pacific/Apia", "2011-12-30T00:00", "2011-12-31T00:00+14:00"),
        ("Pacific/Apia", "2011-12-30T09:00", "2011-12-31T00:00+14:00"),
        ("Pacific/Apia", "2011-12-30T23:59:59", "2011-12-31T00:00+14:00"),
        ("Pacific/Apia", "2011-12-31T00:00", "2011-12-31T00:00+14:00"),
        # What comes twice stands for the first time.
        ("Europe/Berlin", "2024-10-27T02:00", "2024-10-27T02:00+02:00"),
        ("Europe/Berlin", "2024-10-27T02:59:59", "2024-10-27T02:59:59+02:00"),
        ("Europe/Berlin", "2024-10-27T03:00", "2024-10-27T03:00+01:00"),
        ("Australia/Lord_Howe", "2024-04-07T01:45", "2024-04-07T01:45+11:00"),
        ("America/St_Johns", "2010-11-07T00:00:30", "2010-11-07T00:00:30-02:30"),
    ],
)
def test_a_wall_time_has_one_instant(zone: str, wall: str, expected: str) -> None:
    instant = instant_of(datetime.fromisoformat(wall), ZoneInfo(zone))
    assert instant.tzinfo is UTC
    assert instant == datetime.fromisoformat(expected).astimezone(UTC)


def test_the_second_occurrence_cannot_be_asked_for() -> None:
    second = datetime.fromisoformat("2024-10-27T02:30").replace(fold=1)
    assert instant_of(second, ZoneInfo("Europe/Berlin")) == datetime(2024, 10, 27, 0, 30, tzinfo=UTC)


def test_a_fixed_offset_is_a_zone_too() -> None:
    wall = datetime.fromisoformat("2024-05-01T09:00")
    assert instant_of(wall, timezone(timedelta(hours=-3))) == datetime(2024, 5, 1, 12, tzinfo=UTC)


def test_a_time_with_an_offset_is_no_wall_time() -> None:
    with pytest.raises(ValueError, match="2024-05-01T09:00:00\\+00:00 has one"):
        instant_of(datetime(2024, 5, 1, 9, tzinfo=UTC), UTC)


@given(st.sampled_from(ZONES), walls)
def test_the_clock_shows_the_time_then_or_has_just_skipped_it(name: str, wall: datetime) -> None:
    zone = ZoneInfo(name)
    instant = instant_of(wall, zone)
    shown = instant.astimezone(zone).replace(tzinfo=None)
    if shown != wall:
        moment_before = (instant - timedelta.resolution).astimezone(zone).replace(tzinfo=None)
        assert moment_before < wall < shown
