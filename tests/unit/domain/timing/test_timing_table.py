"""When a message may leave, over clocks that do odd things.

Every time stands with the offset that the clock of the place had at that moment, and each row is checked for
that too. The expected times come from the history of the zones, not from the code. `NOW` means: not held.
"""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from tocsin.domain.timing.windows import Window, hold_until

NOW = "now"
DAYTIME = "09:00-22:00"

ROWS = [
    # No clock changes near: both sides of both edges, half-open.
    ("UTC", DAYTIME, "2024-05-01T08:59:59+00:00", "2024-05-01T09:01+00:00"),
    ("UTC", DAYTIME, "2024-05-01T09:00:00+00:00", NOW),
    ("UTC", DAYTIME, "2024-05-01T21:59:59.999999+00:00", NOW),
    ("UTC", DAYTIME, "2024-05-01T22:00:00+00:00", "2024-05-02T09:01+00:00"),
    ("UTC", DAYTIME, "2024-05-01T00:00:00+00:00", "2024-05-01T09:01+00:00"),
    # Across midnight, both sides of both edges and of midnight itself.
    ("UTC", "22:00-06:00", "2024-05-01T21:59:59+00:00", "2024-05-01T22:01+00:00"),
    ("UTC", "22:00-06:00", "2024-05-01T22:00:00+00:00", NOW),
    ("UTC", "22:00-06:00", "2024-05-01T23:59:59+00:00", NOW),
    ("UTC", "22:00-06:00", "2024-05-02T00:00:00+00:00", NOW),
    ("UTC", "22:00-06:00", "2024-05-02T05:59:59+00:00", NOW),
    ("UTC", "22:00-06:00", "2024-05-02T06:00:00+00:00", "2024-05-02T22:01+00:00"),
    # Up to and from midnight; the whole day; all but one minute; one minute.
    ("UTC", "18:00-24:00", "2024-05-01T23:59:59+00:00", NOW),
    ("UTC", "18:00-24:00", "2024-05-02T00:00:00+00:00", "2024-05-02T18:01+00:00"),
    ("UTC", "18:00-00:00", "2024-05-01T23:59:59+00:00", NOW),
    ("UTC", "18:00-00:00", "2024-05-02T00:00:00+00:00", "2024-05-02T18:01+00:00"),
    ("UTC", "00:00-08:00", "2024-05-01T23:59:59+00:00", "2024-05-02T00:01+00:00"),
    ("UTC", "00:00-24:00", "2024-05-01T00:00:00+00:00", NOW),
    ("UTC", "always", "2024-05-01T23:59:59+00:00", NOW),
    ("UTC", "12:00-11:59", "2024-05-01T11:58:59+00:00", NOW),
    ("UTC", "12:00-11:59", "2024-05-01T11:59:00+00:00", "2024-05-01T12:01+00:00"),
    ("UTC", "12:00-12:01", "2024-05-01T12:00:59+00:00", NOW),
    ("UTC", "12:00-12:01", "2024-05-01T12:01:00+00:00", "2024-05-02T12:00+00:00"),
    # The ends of years and of a leap February.
    ("UTC", DAYTIME, "2023-12-31T22:00:00+00:00", "2024-01-01T09:01+00:00"),
    ("Asia/Tokyo", DAYTIME, "2024-12-31T23:59:59+09:00", "2025-01-01T09:01+09:00"),
    ("Pacific/Kiritimati", DAYTIME, "2024-12-31T22:00:00+14:00", "2025-01-01T09:01+14:00"),
    ("Etc/GMT+12", "22:00-06:00", "2024-12-31T23:59:59-12:00", NOW),
    ("UTC", DAYTIME, "2024-02-28T22:00:00+00:00", "2024-02-29T09:01+00:00"),
    ("UTC", DAYTIME, "2023-02-28T22:00:00+00:00", "2023-03-01T09:01+00:00"),
    # Offsets that are no whole hours.
    ("Asia/Kolkata", DAYTIME, "2024-05-01T08:59:59+05:30", "2024-05-01T09:01+05:30"),
    ("Pacific/Marquesas", DAYTIME, "2024-05-01T22:00:00-09:30", "2024-05-02T09:01-09:30"),
    ("Australia/Eucla", DAYTIME, "2024-05-01T09:00:00+08:45", NOW),
    # Kathmandu: 15 minutes skipped at the start of 1986.
    ("Asia/Kathmandu", DAYTIME, "2024-05-01T08:59:59+05:45", "2024-05-01T09:01+05:45"),
    ("Asia/Kathmandu", DAYTIME, "2024-05-01T09:00:00+05:45", NOW),
    ("Asia/Kathmandu", DAYTIME, "1985-12-31T22:00:00+05:30", "1986-01-01T09:01+05:45"),
    ("Asia/Kathmandu", "00:00-06:00", "1985-12-31T23:59:59+05:30", "1986-01-01T00:16+05:45"),
    ("Asia/Kathmandu", "00:00-06:00", "1986-01-01T00:15:00+05:45", NOW),
    # Istanbul: the change of autumn 2015 came two weeks late, that of 2016 never.
    ("Europe/Istanbul", DAYTIME, "2015-10-24T22:00:00+03:00", "2015-10-25T09:01+03:00"),
    ("Europe/Istanbul", DAYTIME, "2015-11-07T22:00:00+03:00", "2015-11-08T09:01+02:00"),
    ("Europe/Istanbul", "03:30-22:00", "2016-03-27T02:59:59+02:00", "2016-03-27T04:01+03:00"),
    ("Europe/Istanbul", "03:30-22:00", "2016-03-27T04:00:00+03:00", NOW),
    ("Europe/Istanbul", DAYTIME, "2016-10-29T22:00:00+03:00", "2016-10-30T09:01+03:00"),
    ("Europe/Istanbul", DAYTIME, "2016-10-30T08:59:59+03:00", "2016-10-30T09:01+03:00"),
    ("Europe/Istanbul", DAYTIME, "2016-12-15T09:00:00+03:00", NOW),
    # Casablanca: the clock goes back an hour for Ramadan, and forward after it.
    ("Africa/Casablanca", DAYTIME, "2024-03-09T22:00:00+01:00", "2024-03-10T09:01+00:00"),
    ("Africa/Casablanca", DAYTIME, "2024-03-10T08:59:59+00:00", "2024-03-10T09:01+00:00"),
    ("Africa/Casablanca", DAYTIME, "2024-04-13T22:00:00+00:00", "2024-04-14T09:01+01:00"),
    ("Africa/Casablanca", "02:30-05:00", "2024-03-10T02:29:59+01:00", "2024-03-10T02:31+01:00"),
    ("Africa/Casablanca", "02:30-05:00", "2024-03-10T02:59:59+01:00", NOW),
    ("Africa/Casablanca", "02:30-05:00", "2024-03-10T02:00:00+00:00", "2024-03-10T02:31+00:00"),
    ("Africa/Casablanca", "02:30-05:00", "2024-04-14T01:59:59+00:00", "2024-04-14T03:01+01:00"),
    # Lord Howe: half an hour forward and back.
    ("Australia/Lord_Howe", DAYTIME, "2024-04-06T22:00:00+11:00", "2024-04-07T09:01+10:30"),
    ("Australia/Lord_Howe", DAYTIME, "2024-10-05T22:00:00+10:30", "2024-10-06T09:01+11:00"),
    ("Australia/Lord_Howe", "02:15-06:00", "2024-10-06T01:59:59+10:30", "2024-10-06T02:31+11:00"),
    ("Australia/Lord_Howe", "02:15-06:00", "2024-10-06T02:30:00+11:00", NOW),
    ("Australia/Lord_Howe", "22:00-02:15", "2024-10-06T01:59:59+10:30", NOW),
    ("Australia/Lord_Howe", "22:00-02:15", "2024-10-06T02:30:00+11:00", "2024-10-06T22:01+11:00"),
    ("Australia/Lord_Howe", "02:00-02:30", "2024-10-06T01:59:00+10:30", "2024-10-07T02:01+11:00"),
    ("Australia/Lord_Howe", "01:45-06:00", "2024-04-07T01:44:59+11:00", "2024-04-07T01:46+11:00"),
    ("Australia/Lord_Howe", "01:45-06:00", "2024-04-07T01:59:59+11:00", NOW),
    ("Australia/Lord_Howe", "01:45-06:00", "2024-04-07T01:30:00+10:30", "2024-04-07T01:46+10:30"),
    ("Australia/Lord_Howe", "01:00-01:45", "2024-04-07T01:45:00+11:00", "2024-04-07T01:31+10:30"),
    ("Australia/Lord_Howe", "01:00-01:45", "2024-04-07T01:30:00+10:30", NOW),
    ("Australia/Lord_Howe", "01:00-01:45", "2024-04-07T01:45:00+10:30", "2024-04-08T01:01+10:30"),
    # Chatham: three quarters past the hour, changing at 02:45.
    ("Pacific/Chatham", DAYTIME, "2024-09-28T22:00:00+12:45", "2024-09-29T09:01+13:45"),
    ("Pacific/Chatham", DAYTIME, "2024-04-06T22:00:00+13:45", "2024-04-07T09:01+12:45"),
    ("Pacific/Chatham", "03:00-08:00", "2024-09-29T02:44:59+12:45", "2024-09-29T03:46+13:45"),
    ("Pacific/Chatham", "03:00-08:00", "2024-09-29T03:45:00+13:45", NOW),
    ("Pacific/Chatham", "03:15-08:00", "2024-04-07T03:14:59+13:45", "2024-04-07T03:16+13:45"),
    ("Pacific/Chatham", "03:15-08:00", "2024-04-07T03:44:59+13:45", NOW),
    ("Pacific/Chatham", "03:15-08:00", "2024-04-07T02:45:00+12:45", "2024-04-07T03:16+12:45"),
    # Days that never were: 30 December 2011 in Apia and Fakaofo, 31 December 1994 in Kiritimati.
    ("Pacific/Apia", DAYTIME, "2011-12-29T21:59:59-10:00", NOW),
    ("Pacific/Apia", DAYTIME, "2011-12-29T22:00:00-10:00", "2011-12-31T09:01+14:00"),
    ("Pacific/Apia", DAYTIME, "2011-12-31T00:00:00+14:00", "2011-12-31T09:01+14:00"),
    ("Pacific/Apia", DAYTIME, "2011-12-31T09:00:00+14:00", NOW),
    ("Pacific/Apia", "22:00-06:00", "2011-12-29T23:59:59-10:00", NOW),
    ("Pacific/Apia", "22:00-06:00", "2011-12-31T00:00:00+14:00", NOW),
    ("Pacific/Apia", "22:00-06:00", "2011-12-31T06:00:00+14:00", "2011-12-31T22:01+14:00"),
    ("Pacific/Apia", "00:00-06:00", "2011-12-29T23:59:59-10:00", "2011-12-31T00:01+14:00"),
    ("Pacific/Fakaofo", DAYTIME, "2011-12-29T22:00:00-11:00", "2011-12-31T09:01+13:00"),
    ("Pacific/Kiritimati", DAYTIME, "1994-12-30T22:00:00-10:00", "1995-01-01T09:01+14:00"),
    # An hour skipped and an hour repeated in the small hours.
    ("America/New_York", DAYTIME, "2024-03-09T22:00:00-05:00", "2024-03-10T09:01-04:00"),
    ("America/New_York", "02:00-03:00", "2024-03-09T03:00:00-05:00", "2024-03-11T02:01-04:00"),
    ("America/New_York", "22:00-02:30", "2024-03-10T01:59:59-05:00", NOW),
    ("America/New_York", "22:00-02:30", "2024-03-10T03:00:00-04:00", "2024-03-10T22:01-04:00"),
    ("America/New_York", "01:00-02:00", "2024-11-03T01:59:59-04:00", NOW),
    ("America/New_York", "01:00-02:00", "2024-11-03T01:00:00-05:00", NOW),
    ("America/New_York", "01:00-02:00", "2024-11-03T02:00:00-05:00", "2024-11-04T01:01-05:00"),
    ("America/New_York", "01:30-05:00", "2024-11-03T01:29:59-04:00", "2024-11-03T01:31-04:00"),
    ("America/New_York", "01:30-05:00", "2024-11-03T01:00:00-05:00", "2024-11-03T01:31-05:00"),
    ("Europe/Berlin", "02:30-22:00", "2024-03-31T01:59:59+01:00", "2024-03-31T03:01+02:00"),
    ("Europe/Dublin", DAYTIME, "2024-10-26T22:00:00+01:00", "2024-10-27T09:01+00:00"),
    # Troll: two hours at once.
    ("Antarctica/Troll", "01:30-02:30", "2024-03-31T00:59:59+00:00", "2024-04-01T01:31+02:00"),
    ("Antarctica/Troll", "01:30-02:30", "2024-10-27T02:30:00+02:00", "2024-10-27T01:31+00:00"),
    # Changes at midnight: the day starts at 01:00, or its last hour comes twice.
    ("America/Havana", "00:00-06:00", "2024-03-09T23:59:59-05:00", "2024-03-10T01:01-04:00"),
    ("America/Havana", "00:30-06:00", "2024-11-03T00:00:00-05:00", "2024-11-03T00:31-05:00"),
    ("Asia/Beirut", "00:00-06:00", "2022-03-26T23:59:59+02:00", "2022-03-27T01:01+03:00"),
    ("Asia/Beirut", "00:00-06:00", "2022-10-29T23:59:59+03:00", "2022-10-30T00:01+02:00"),
    ("Africa/Cairo", "23:30-06:00", "2023-10-26T23:00:00+02:00", "2023-10-26T23:31+02:00"),
    ("Africa/Cairo", "00:30-06:00", "2023-04-27T23:59:59+02:00", "2023-04-28T01:01+03:00"),
    ("America/Nuuk", "23:30-06:00", "2024-03-30T22:59:59-02:00", "2024-03-31T00:01-01:00"),
    # St. John's once changed a minute after midnight, so a date came, went and came again.
    ("America/St_Johns", "00:00-06:00", "2010-11-07T00:00:59-02:30", NOW),
    ("America/St_Johns", "00:00-06:00", "2010-11-06T23:01:00-03:30", "2010-11-07T00:01-03:30"),
    ("America/St_Johns", "00:00-06:00", "2010-11-06T23:59:00-02:30", "2010-11-07T00:00-02:30"),
    # Changes of a country's time for good.
    ("Asia/Pyongyang", "23:30-06:00", "2018-05-04T23:29:59+08:30", "2018-05-05T00:01+09:00"),
    ("America/Caracas", "02:45-06:00", "2016-05-01T02:29:59-04:30", "2016-05-01T03:01-04:00"),
    ("Europe/Moscow", DAYTIME, "2014-10-25T22:00:00+04:00", "2014-10-26T09:01+03:00"),
]


@pytest.mark.parametrize(("zone", "window", "now", "expected"), ROWS)
def test_a_message_leaves_when_the_window_is_open(zone: str, window: str, now: str, expected: str) -> None:
    assert_shown(now, zone)
    held = hold_until(datetime.fromisoformat(now), ZoneInfo(zone), Window.parse(window))
    if expected is NOW:
        assert held is None
    else:
        assert_shown(expected, zone)
        assert held is not None
        assert held.tzinfo is UTC
        assert held.astimezone(ZoneInfo(zone)).isoformat() == datetime.fromisoformat(expected).isoformat()


def assert_shown(moment: str, zone: str) -> None:
    """Make sure that the clock of the place shows this at that moment."""
    said = datetime.fromisoformat(moment)
    assert said.astimezone(ZoneInfo(zone)).isoformat() == said.isoformat()


def test_the_table_reads_each_case_once() -> None:
    assert len(ROWS) == len({row[:3] for row in ROWS})
    assert len(ROWS) >= 60
