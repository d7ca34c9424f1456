from datetime import UTC, datetime, timedelta
from zoneinfo import available_timezones

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.domain.timing.zones import choose_zone, is_known_timezone

NOON = datetime(2024, 7, 1, 12, tzinfo=UTC)
ODD_NAMES = [
    "Mars/Olympus",
    "europe/istanbul",
    "Europe/Istanbul ",
    "UTC+3",
    "../../etc/passwd",
    "/etc/localtime",
    "Europe/../Europe/Berlin",
    "Europe",
    "localtime",
    "Factory",
    ".",
    " ",
    "Europe/Berlin\x00",
    "\ud800",
    "🕰",
]


def test_the_device_comes_first() -> None:
    chosen = choose_zone("Asia/Tokyo", "Europe/Istanbul", 3600, "America/New_York")
    assert (chosen.name, chosen.source, chosen.unknown) == ("Asia/Tokyo", "device", ())
    assert NOON.astimezone(chosen.zone).hour == 21


@pytest.mark.parametrize("absent", [None, ""])
def test_the_person_comes_before_the_offset(absent: str | None) -> None:
    chosen = choose_zone(absent, "Europe/Istanbul", 3600, "America/New_York")
    assert (chosen.name, chosen.source, chosen.unknown) == ("Europe/Istanbul", "person", ())
    assert NOON.astimezone(chosen.zone).hour == 15


@pytest.mark.parametrize(
    ("seconds", "name"),
    [
        (0, "UTC"),
        (10_800, "UTC+03:00"),
        (-12_600, "UTC-03:30"),
        (20_700, "UTC+05:45"),
        (64_800, "UTC+18:00"),
        (-64_800, "UTC-18:00"),
    ],
)
def test_the_offset_comes_before_the_default(seconds: int, name: str) -> None:
    chosen = choose_zone(None, None, seconds, "America/New_York")
    assert (chosen.name, chosen.source, chosen.unknown) == (name, "offset", ())
    assert chosen.zone.utcoffset(NOON) == timedelta(seconds=seconds)


def test_the_default_comes_last() -> None:
    chosen = choose_zone(None, None, None, "America/New_York")
    assert (chosen.name, chosen.source, chosen.unknown) == ("America/New_York", "default", ())
    assert NOON.astimezone(chosen.zone).hour == 8


@pytest.mark.parametrize("name", ODD_NAMES)
def test_an_unknown_name_is_passed_over_and_reported(name: str) -> None:
    by_device = choose_zone(name, "Europe/Istanbul", None, "UTC")
    assert (by_device.name, by_device.source, by_device.unknown) == ("Europe/Istanbul", "person", (name,))
    by_person = choose_zone(None, name, None, "UTC")
    assert (by_person.name, by_person.source, by_person.unknown) == ("UTC", "default", (name,))


def test_everything_unknown_is_reported_in_order_and_utc_is_used() -> None:
    chosen = choose_zone("Mars/Olympus", "Moon/Base", 64_801, "Sun/Core")
    assert (chosen.name, chosen.source) == ("UTC", "default")
    assert chosen.unknown == ("Mars/Olympus", "Moon/Base", "64801 seconds from GMT", "Sun/Core")
    assert chosen.zone.utcoffset(NOON) == timedelta(0)


def test_only_what_was_passed_over_is_reported() -> None:
    assert choose_zone("Asia/Tokyo", "Moon/Base", 90_000, "Sun/Core").unknown == ()


def test_a_long_name_is_reported_in_short() -> None:
    (reported,) = choose_zone("x" * 1_000_000, None, None, "UTC").unknown
    assert reported == "x" * 63 + "…"


def test_the_same_choice_is_made_once() -> None:
    assert choose_zone("Asia/Tokyo", None, None, "UTC") is choose_zone("Asia/Tokyo", None, None, "UTC")


def test_every_zone_of_the_database_is_known() -> None:
    names = available_timezones() - {"localtime", "Factory"}
    assert len(names) > 400
    assert all(is_known_timezone(name) for name in names)
    assert {choose_zone(name, None, None, "UTC").source for name in names} == {"device"}


@given(
    st.none() | st.text(),
    st.none() | st.text(),
    st.none() | st.integers(),
    st.text(),
)
def test_there_is_always_a_zone(
    device: str | None, person: str | None, seconds: int | None, default: str
) -> None:
    chosen = choose_zone(device, person, seconds, default)
    assert NOON.astimezone(chosen.zone) == NOON
