from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.domain.timing.days import local_day, next_local_day, throttle_window

ZONES = sorted(available_timezones() - {"localtime"})
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
walls = st.datetimes(datetime.fromisoformat("1995-01-02"), datetime.fromisoformat("2037-12-31"))
moments = walls.map(lambda wall: wall.replace(tzinfo=UTC))


@pytest.mark.parametrize(
    ("zone", "now", "expected"),
    [
        ("UTC", "2024-12-31T23:59:59.999999+00:00", date(2024, 12, 31)),
        ("UTC", "2025-01-01T00:00+00:00", date(2025, 1, 1)),
        ("Asia/Tokyo", "2024-05-01T15:00+00:00", date(2024, 5, 2)),
        ("America/New_York", "2024-05-01T03:59:59+00:00", date(2024, 4, 30)),
        ("Pacific/Apia", "2011-12-30T09:59:59+00:00", date(2011, 12, 29)),
        ("Pacific/Apia", "2011-12-30T10:00+00:00", date(2011, 12, 31)),
    ],
)
def test_a_day_is_the_persons_own(zone: str, now: str, expected: date) -> None:
    assert local_day(datetime.fromisoformat(now), ZoneInfo(zone)) == expected


@pytest.mark.parametrize(
    ("zone", "now", "expected"),
    [
        ("UTC", "2024-05-01T00:00+00:00", "2024-05-02T00:00+00:00"),
        ("UTC", "2024-05-01T23:59:59.999999+00:00", "2024-05-02T00:00+00:00"),
        ("Asia/Tokyo", "2024-12-31T12:00+09:00", "2025-01-01T00:00+09:00"),
        ("Europe/Berlin", "2024-03-31T00:30+01:00", "2024-04-01T00:00+02:00"),
        ("Europe/Berlin", "2024-10-27T00:30+02:00", "2024-10-28T00:00+01:00"),
        ("Australia/Lord_Howe", "2024-10-06T00:00+10:30", "2024-10-07T00:00+11:00"),
        # The day starts at one o'clock, for there is no midnight.
        ("America/Havana", "2024-03-09T23:59:59-05:00", "2024-03-10T01:00-04:00"),
        ("America/Havana", "2024-03-10T01:00-04:00", "2024-03-11T00:00-04:00"),
        ("Asia/Beirut", "2022-03-26T12:00+02:00", "2022-03-27T01:00+03:00"),
        ("Africa/Cairo", "2023-04-27T12:00+02:00", "2023-04-28T01:00+03:00"),
        ("America/Sao_Paulo", "2018-11-03T12:00-03:00", "2018-11-04T01:00-02:00"),
        # The last hour of the day comes twice.
        ("Asia/Beirut", "2022-10-29T23:30+03:00", "2022-10-30T00:00+02:00"),
        ("Asia/Beirut", "2022-10-29T23:30+02:00", "2022-10-30T00:00+02:00"),
        ("Africa/Cairo", "2023-10-26T23:59:59+03:00", "2023-10-27T00:00+02:00"),
        ("America/Sao_Paulo", "2018-02-17T12:00-02:00", "2018-02-18T00:00-03:00"),
        # The first hour of the day comes twice.
        ("America/Havana", "2024-11-02T12:00-04:00", "2024-11-03T00:00-04:00"),
        ("America/Havana", "2024-11-03T00:30-04:00", "2024-11-04T00:00-05:00"),
        # A minute of the new day, then the last hour of the old one again.
        ("America/St_Johns", "2010-11-06T23:30-02:30", "2010-11-07T00:00-02:30"),
        ("America/St_Johns", "2010-11-07T00:00:30-02:30", "2010-11-08T00:00-03:30"),
        ("America/St_Johns", "2010-11-06T23:30-03:30", "2010-11-07T00:00-03:30"),
        # A day that never was.
        ("Pacific/Apia", "2011-12-29T12:00-10:00", "2011-12-31T00:00+14:00"),
        ("Pacific/Apia", "2011-12-31T00:00+14:00", "2012-01-01T00:00+14:00"),
        ("Pacific/Kiritimati", "1994-12-30T12:00-10:00", "1995-01-01T00:00+14:00"),
    ],
)
def test_the_next_day_begins_when_the_persons_calendar_says_so(zone: str, now: str, expected: str) -> None:
    start = datetime.fromisoformat(expected)
    assert start.astimezone(ZoneInfo(zone)).isoformat() == start.isoformat()
    found = next_local_day(datetime.fromisoformat(now), ZoneInfo(zone))
    assert found.tzinfo is UTC
    assert found == start


@given(st.sampled_from(ZONES), moments)
def test_the_next_day_is_the_first_moment_with_a_later_date(name: str, now: datetime) -> None:
    zone = ZoneInfo(name)
    today = now.astimezone(zone).date()
    start = next_local_day(now, zone)
    assert now < start <= now + 2 * DAY
    assert start.astimezone(zone).date() > today
    walked = [start - MINUTE * number for number in range(1, (start - now) // MINUTE + 1)]
    assert all(moment.astimezone(zone).date() <= today for moment in [now, *walked])


@pytest.mark.parametrize(
    ("now", "length", "start", "end"),
    [
        ("2024-05-01T12:34:56+00:00", HOUR, "2024-05-01T12:00+00:00", "2024-05-01T13:00+00:00"),
        ("2024-05-01T13:00+00:00", HOUR, "2024-05-01T13:00+00:00", "2024-05-01T14:00+00:00"),
        ("2024-05-01T02:30+03:00", DAY, "2024-04-30T00:00+00:00", "2024-05-01T00:00+00:00"),
        ("2024-05-01T00:07:31+00:00", 5 * MINUTE, "2024-05-01T00:05+00:00", "2024-05-01T00:10+00:00"),
        ("1969-12-31T23:59+00:00", HOUR, "1969-12-31T23:00+00:00", "1970-01-01T00:00+00:00"),
    ],
)
def test_throttle_windows_follow_each_other(now: str, length: timedelta, start: str, end: str) -> None:
    found = throttle_window(datetime.fromisoformat(now), length)
    assert found == (datetime.fromisoformat(start), datetime.fromisoformat(end))
    assert {edge.tzinfo for edge in found} == {UTC}


@given(moments, st.timedeltas(timedelta(seconds=1), timedelta(days=400)))
def test_every_moment_lies_in_one_throttle_window(now: datetime, length: timedelta) -> None:
    start, end = throttle_window(now, length)
    assert start <= now < end == start + length
    assert throttle_window(start, length) == (start, end)
    assert throttle_window(end, length) == (end, end + length)


@pytest.mark.parametrize("length", [timedelta(0), -HOUR])
def test_a_throttle_window_has_a_length(length: timedelta) -> None:
    with pytest.raises(ValueError, match="longer than 0"):
        throttle_window(datetime(2024, 5, 1, tzinfo=UTC), length)
