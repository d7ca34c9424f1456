"""Schedules: their times across clock changes, missed runs, rests and checkpoints."""

import itertools
from datetime import UTC, datetime, timedelta
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.domain.timing.schedule import (
    LONGEST_PAUSE,
    RunFor,
    Schedule,
    SkipTo,
    ValueType,
    choose_run,
    pause_after,
    read_value,
)
from tocsin.engine.periodic.times import following, latest, schedule_fault

CRONS = ["*/15 * * * *", "30 2 * * *", "15,45 1-3 * * *", "0 */6 * * *", "5 * * * MON", "0 0 1 * *"]
ZONES = ["UTC", "Europe/Berlin", "America/New_York", "Europe/Istanbul", "Pacific/Auckland", "Asia/Kathmandu"]
MOMENTS = st.datetimes(datetime(2025, 1, 1), datetime(2027, 12, 31)).map(lambda at: at.replace(tzinfo=UTC))  # noqa: DTZ001 - made aware right there


@given(st.sampled_from(CRONS), st.sampled_from(ZONES), MOMENTS)
def test_times_follow_each_other_without_a_gap_or_a_repetition(
    cron: str, zone: str, moment: datetime
) -> None:
    schedule = Schedule(cron, zone)

    after = following(schedule, moment)
    before = latest(schedule, moment)

    assert before <= moment < after
    assert following(schedule, before) == after
    assert latest(schedule, after) == after
    assert latest(schedule, after - timedelta(seconds=1)) == before


@given(st.sampled_from(ZONES), st.integers(0, 23), st.integers(0, 59), MOMENTS)
def test_a_daily_time_comes_once_on_every_day(zone: str, hour: int, minute: int, moment: datetime) -> None:
    schedule = Schedule(f"{minute} {hour} * * *", zone)
    days = []
    for _ in range(4):
        moment = following(schedule, moment)
        days.append(moment.astimezone(ZoneInfo(zone)).date())

    assert [(later - earlier).days for earlier, later in itertools.pairwise(days)] == [1, 1, 1]


def test_a_time_that_never_comes_is_made_up_for_and_one_that_comes_twice_is_taken_once() -> None:
    nightly = Schedule("30 2 * * *", "Europe/Berlin")

    spring = following(nightly, datetime(2026, 3, 28, 12, tzinfo=UTC))
    autumn = following(nightly, datetime(2026, 10, 24, 12, tzinfo=UTC))

    assert spring == datetime(2026, 3, 29, 1, 0, tzinfo=UTC)
    assert autumn == datetime(2026, 10, 25, 0, 30, tzinfo=UTC)
    assert following(nightly, autumn + timedelta(minutes=45)) == datetime(2026, 10, 26, 1, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("cron", "zone", "said"),
    [
        ("*/15 * * *", "UTC", "not in the notation of cron (Wrong number of fields)"),
        ("61 * * * *", "UTC", "not in the notation of cron (Bad minute)"),
        ("0 0 30 2 *", "UTC", "not in the notation of cron (Bad day-of-month)"),
        ("* * * * *", "Europe/Nowhere", "'Europe/Nowhere' is not one of the IANA time zones"),
    ],
)
def test_a_wrong_schedule_is_told_with_its_text(cron: str, zone: str, said: str) -> None:
    fault = schedule_fault(Schedule(cron, zone))

    assert fault is not None
    assert said in fault


def test_missed_runs() -> None:
    hourly = Schedule("0 * * * *")
    owed, now = datetime(2026, 1, 1, 3, tzinfo=UTC), datetime(2026, 1, 1, 7, 30, tzinfo=UTC)

    def chosen(catch_up: str, at: datetime) -> RunFor | SkipTo:
        return choose_run(
            owed,
            at,
            catch_up,  # type: ignore[arg-type]
            latest=lambda moment: latest(hourly, moment),
            following=lambda moment: following(hourly, moment),
        )

    assert chosen("all", now) == RunFor(owed)
    assert chosen("last", now) == RunFor(now.replace(hour=7, minute=0))
    assert chosen("none", now) == SkipTo(now.replace(hour=8, minute=0))
    assert chosen("none", now.replace(minute=1)) == RunFor(now.replace(minute=0))
    assert chosen("none", owed + timedelta(seconds=60)) == RunFor(owed)


@given(st.integers(1, 1_000))
def test_a_rest_grows_up_to_a_quarter_of_an_hour(failures: int) -> None:
    assert timedelta(seconds=30) <= pause_after(failures) <= pause_after(failures + 1) <= LONGEST_PAUSE


@pytest.mark.parametrize(
    ("given_", "value_type", "read"),
    [
        ("2026-01-31T08:00:00+03:00", "timestamptz", datetime(2026, 1, 31, 5, tzinfo=UTC)),
        ("17", "bigint", 17),
        (17, "bigint", 17),
        ("abc", "text", "abc"),
        ("00000000-0000-7000-8000-000000000001", "uuid", UUID(int=0x70008000000000000001)),
    ],
)
def test_a_checkpoint_is_read(given_: object, value_type: ValueType, read: object) -> None:
    assert read_value(given_, value_type) == read


@pytest.mark.parametrize(
    ("given_", "value_type"),
    [
        ("2026-01-31T08:00:00", "timestamptz"),
        (None, "timestamptz"),
        (2**63, "bigint"),
        (1.5, "bigint"),
        (True, "bigint"),
        (3, "text"),
        ("x", "uuid"),
    ],
)
def test_a_wrong_checkpoint_is_told_with_what_it_must_be(given_: object, value_type: ValueType) -> None:
    with pytest.raises(ValueError, match=r"^must be a.*, not "):
        read_value(given_, value_type)
