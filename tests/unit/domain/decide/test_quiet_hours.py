"""Quiet hours and wall times in decisions."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from tests.unit.domain.decide.cases import (
    DAY,
    ENDPOINT,
    HOUR,
    MINUTE,
    MORNING,
    NIGHT,
    PHONE,
    QUIET,
    TABLET,
    deciding,
    described,
    facts,
    profile,
    verdict_on,
    wall,
)
from tocsin.domain.catalog import Channel
from tocsin.domain.decide import (
    Expire,
    Go,
    Wait,
)
from tocsin.domain.people.profile import RecipientProfile
from tocsin.domain.plan import due_time
from tocsin.domain.timing.quiet_hours import QuietHours, QuietHoursSettings

DEFAULT = QuietHours.compile(QuietHoursSettings())


@pytest.mark.parametrize(
    ("known", "window"),
    [
        (profile(), "09:00-22:00 UTC (from the default), the window of the deployment"),
        (
            profile(timezone="Europe/Istanbul"),
            "09:00-22:00 Europe/Istanbul (from the person), the window of the deployment",
        ),
        (
            profile(devices=(PHONE._replace(timezone="Asia/Tokyo"),), timezone="Europe/Istanbul"),
            "09:00-22:00 Asia/Tokyo (from the device), the window of the deployment",
        ),
        (
            profile(
                devices=(
                    TABLET._replace(timezone="Asia/Tokyo"),
                    PHONE._replace(timezone="Europe/Istanbul"),
                )
            ),
            "09:00-22:00 Asia/Tokyo (from the device), the window of the deployment",
        ),
        (
            profile(gmt_offset_seconds=-3_600),
            "09:00-22:00 UTC-01:00 (from the offset), the window of the deployment",
        ),
        (
            profile(timezone="Mars/Olympus", gmt_offset_seconds=3_600),
            "09:00-22:00 UTC+01:00 (from the offset; unknown: Mars/Olympus), the window of the deployment",
        ),
        (
            profile(devices=(PHONE._replace(timezone="Here"),), timezone="Mars/Olympus"),
            "09:00-22:00 UTC (from the default; unknown: Here, Mars/Olympus), the window of the deployment",
        ),
        (
            profile(allowed_window="10:00-13:00"),
            "10:00-13:00 UTC (from the default), the window of the person",
        ),
        (
            profile(allowed_window="whenever"),
            (
                "09:00-22:00 UTC (from the default), the window of the deployment; "
                "the person's own cannot be read: "
                "'whenever' is not a window: write it as 09:00-22:00, or always"
            ),
        ),
    ],
)
def test_a_window_is_recorded_with_its_zone_and_where_both_came_from(
    known: RecipientProfile, window: str
) -> None:
    verdict = verdict_on(facts(profile=known))

    assert described(verdict)[-1] == f"quiet_hours pass: within {window}"


def test_an_unknown_zone_is_recorded_when_it_waits_too() -> None:
    lost = profile(devices=(PHONE._replace(timezone="Mars/Olympus"),))
    verdict = verdict_on(facts(NIGHT, profile=lost))

    detail = deciding(verdict).detail
    assert (
        detail == "quiet hours 22:00-09:00 UTC (from the default; unknown: Mars/Olympus), of the deployment"
    )


def test_a_category_has_its_own_hours() -> None:
    quiet = QuietHours.compile(
        QuietHoursSettings(default_timezone="UTC", categories={"comments": "13:00-14:00"})
    )
    verdict = verdict_on(facts(), quiet)

    assert isinstance(verdict, Wait)
    assert verdict.until == DAY + HOUR + MINUTE
    assert deciding(verdict).detail == "quiet hours 14:00-13:00 UTC (from the default), of the category"


def test_without_quiet_hours_nothing_waits() -> None:
    quiet = QuietHours.compile(QuietHoursSettings(enabled=False))

    verdict = verdict_on(facts(NIGHT), quiet)

    assert isinstance(verdict, Go)
    assert described(verdict)[-1] == "quiet_hours pass: quiet hours are switched off"


def test_what_waits_for_the_morning_is_spread_over_it() -> None:
    quiet = QuietHours.compile(QuietHoursSettings(default_timezone="UTC", spread_seconds=600))
    verdicts = [verdict_on(facts(NIGHT, random=random), quiet) for random in (0.0, 0.5)]

    assert [each.until for each in verdicts if isinstance(each, Wait)] == [MORNING, MORNING + 5 * MINUTE]


@pytest.mark.parametrize(
    ("zone", "due"),
    [
        ("Europe/Istanbul", datetime(2026, 1, 16, 7, 0, tzinfo=UTC)),
        ("America/New_York", datetime(2026, 1, 16, 15, 0, tzinfo=UTC)),
        ("Asia/Tokyo", datetime(2026, 1, 16, 1, 0, tzinfo=UTC)),
        ("Asia/Kathmandu", datetime(2026, 1, 16, 4, 15, tzinfo=UTC)),
    ],
)
def test_a_wall_time_is_that_of_each_person(zone: str, due: datetime) -> None:
    asked = facts(profile=profile(timezone=zone), send_at_local=wall(16, 10))
    waiting = verdict_on(asked)

    assert isinstance(waiting, Wait)
    assert (waiting.until, deciding(waiting).until) == (due, due)
    assert deciding(waiting).detail == f"asked for 2026-01-16 10:00 {zone} (from the person)"
    assert isinstance(verdict_on(msgspec.structs.replace(asked, now=due)), Go)
    assert isinstance(verdict_on(msgspec.structs.replace(asked, now=due - MINUTE)), Wait)


def test_a_wall_time_at_night_waits_for_the_morning_after_it() -> None:
    verdict = verdict_on(facts(NIGHT, send_at_local=wall(15, 23, 30)))

    assert isinstance(verdict, Wait)
    assert verdict.until == MORNING
    assert [(step.rule, step.result) for step in verdict.steps[-2:]] == [
        ("local_time", "pass"),
        ("quiet_hours", "hold"),
    ]


@pytest.mark.parametrize(
    ("accepted_at", "zone", "ends_at"),
    [
        (DAY, "Europe/Istanbul", datetime(2026, 1, 17, 7, 10, tzinfo=UTC)),
        (DAY, "America/New_York", datetime(2026, 1, 17, 15, 10, tzinfo=UTC)),
        (DAY, "Pacific/Kiritimati", datetime(2026, 1, 16, 20, 10, tzinfo=UTC)),
        (datetime(2026, 1, 17, 9, tzinfo=UTC), "Europe/Istanbul", datetime(2026, 1, 17, 9, 10, tzinfo=UTC)),
        (datetime(2026, 1, 17, 9, tzinfo=UTC), "America/New_York", datetime(2026, 1, 17, 15, 10, tzinfo=UTC)),
    ],
)
def test_the_time_to_live_of_a_wall_time_begins_with_it(
    accepted_at: datetime, zone: str, ends_at: datetime
) -> None:
    asked = facts(
        ends_at - MINUTE,
        profile=profile(timezone=zone),
        send_at_local=wall(17, 10),
        accepted_at=accepted_at,
        expires_at=due_time(None, wall(17, 10), accepted_at) + 10 * MINUTE,
    )

    assert isinstance(verdict_on(asked), Go)
    assert isinstance(verdict_on(msgspec.structs.replace(asked, now=ends_at)), Expire)


@pytest.mark.parametrize("channel", ["email", "webhook", "inbox"])
def test_quiet_hours_hold_only_push_unless_set(channel: Channel) -> None:
    given = facts(
        NIGHT,
        channel=channel,
        profile=profile(timezone="UTC", mailbox="a@example.org", devices=(PHONE, ENDPOINT)),
    )

    waiting = QuietHours.compile(QuietHoursSettings(channels=["push", channel]))

    passed = [step for step in verdict_on(given, DEFAULT).steps if step.rule == "quiet_hours"]
    assert [step.detail for step in passed] == [f"quiet hours do not hold {channel}"]
    assert isinstance(verdict_on(given, waiting), Wait)


@pytest.mark.parametrize(
    "known", [{"timezone": "UTC"}, {"gmt_offset_seconds": 0}, {"device_timezone": "UTC", "devices": ()}]
)
def test_quiet_hours_hold_only_people_whose_zone_is_known(known: dict[str, Any]) -> None:
    unknown = verdict_on(facts(NIGHT), DEFAULT)

    assert isinstance(unknown, Go)
    assert "quiet_hours.default_timezone is not set" in deciding(unknown).detail
    assert isinstance(verdict_on(facts(NIGHT, profile=profile(**known)), DEFAULT), Wait)
    assert isinstance(verdict_on(facts(NIGHT), QUIET), Wait)
