from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.domain.catalog import NotificationType, Policies
from tocsin.domain.decide import Case, Go, Hold, Person, Skip, Step, Verdict, decide
from tocsin.domain.delivery.reasons import Reason
from tocsin.domain.plan import due_time
from tocsin.domain.timing.quiet_hours import QuietHours, QuietHoursSettings

DAY = datetime(2026, 1, 15, 12, 0, tzinfo=UTC)
NIGHT = datetime(2026, 1, 15, 23, 30, tzinfo=UTC)
MORNING = datetime(2026, 1, 16, 9, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
QUIET = QuietHours.compile(QuietHoursSettings())

REFUSED = Person(choices={"comments": {"push": False}})


def kind(**policies: Any) -> NotificationType:
    return NotificationType(
        name="comment",
        version=1,
        category="comments",
        channels=("push",),
        default_locale="en",
        payload_schema={},
        policies=Policies(**policies),
    )


def case(now: datetime = DAY, **changes: Any) -> Case:
    given: dict[str, Any] = {"kind": kind(), "channel": "push", "now": now}
    return Case(**given | changes)


def wall(day: int, hour: int, minute: int = 0) -> datetime:
    return datetime(2026, 1, day, hour, minute)  # noqa: DTZ001 - a wall time has no zone


def deciding(verdict: Verdict) -> Step:
    """Give the step that a verdict rests on."""
    return verdict.steps[-1]


def said(verdict: Verdict) -> list[str]:
    return [f"{step.rule} {step.result}: {step.detail}" for step in verdict.steps]


def test_nothing_against_it_lets_it_go_and_tells_every_rule_it_passed() -> None:
    verdict = decide(case(), QUIET)

    assert isinstance(verdict, Go)
    assert said(verdict) == [
        "preference pass: 'comments' by push: not refused",
        "toggle pass: switched on",
        "quiet_hours pass: within 09:00-22:00 UTC (from the default), the window of the deployment",
    ]
    assert all(step.at == DAY and step.until is None for step in verdict.steps)


# Each objection by itself, in the order in which they are asked: what it changes, and what follows.
OBJECTIONS: list[tuple[str, dict[str, Any], Verdict, str]] = [
    ("cancelled", {"cancelled": True}, Skip((), "cancelled"), "taken back by its producer"),
    (
        "time_to_live",
        {"expires_at": NIGHT},
        Skip((), "expired"),
        "its time to live ended 2026-01-15 23:30:00 UTC",
    ),
    (
        "collapse_key",
        {"superseded": True},
        Skip((), Reason.COLLAPSED),
        "a newer one with the same collapse key waits",
    ),
    ("preference", {"person": REFUSED}, Skip((), Reason.OPTED_OUT), "opted out of 'comments' by push"),
    ("toggle", {"off_by": "type:comment"}, Hold((), held_by="type:comment"), "type:comment is switched off"),
    ("order", {"behind": True}, Hold((), held_by="order"), "an earlier one is not settled yet"),
    (
        "local_time",
        {"send_at_local": wall(17, 8)},
        Hold((), until=datetime(2026, 1, 17, 8, tzinfo=UTC)),
        "asked for 2026-01-17 08:00 UTC (from the default)",
    ),
    (
        "quiet_hours",
        {},
        Hold((), until=MORNING),
        "quiet hours 22:00-09:00 UTC (from the default), of the deployment",
    ),
]
RULES = [rule for rule, *_ in OBJECTIONS]


@pytest.mark.parametrize("place", range(len(OBJECTIONS)), ids=RULES)
def test_the_first_objection_decides_and_is_the_last_thing_said(place: int) -> None:
    # At night the last rule always objects; every later objection is there as well.
    changes: dict[str, Any] = {}
    for _, change, _, _ in OBJECTIONS[place:]:
        changes |= change
    rule, _, expected, detail = OBJECTIONS[place]

    verdict = decide(case(NIGHT, **changes), QUIET)

    assert msgspec.structs.replace(verdict, steps=()) == expected
    step = deciding(verdict)
    assert (step.rule, step.detail, step.at) == (rule, detail, NIGHT)
    assert step.result == ("skip" if isinstance(expected, Skip) else "hold")
    assert step.until == (expected.until if isinstance(expected, Hold) else None)
    assert [before.result for before in verdict.steps[:-1]] == ["pass"] * (len(verdict.steps) - 1)


@given(st.sets(st.sampled_from(range(len(OBJECTIONS) - 1))), st.sampled_from([DAY, NIGHT]))
def test_it_goes_only_if_no_rule_objects(places: set[int], now: datetime) -> None:
    changes: dict[str, Any] = {"expires_at": NIGHT + HOUR}
    for place in places:
        changes |= OBJECTIONS[place][1]
    if now == DAY and changes["expires_at"] == NIGHT:
        changes["expires_at"] = DAY

    verdict = decide(case(now, **changes), QUIET)

    objecting = sorted(places) + ([len(RULES) - 1] if now == NIGHT else [])
    if objecting:
        assert not isinstance(verdict, Go)
        assert deciding(verdict).rule == RULES[objecting[0]]
    else:
        assert isinstance(verdict, Go)
    assert [step.result for step in verdict.steps].count("pass") >= len(verdict.steps) - 1


@pytest.mark.parametrize(
    ("expires_at", "expired"),
    [(None, False), (DAY + MINUTE, False), (DAY, True), (DAY - MINUTE, True)],
)
def test_a_time_to_live_ends_at_its_last_moment(expires_at: datetime | None, *, expired: bool) -> None:
    verdict = decide(case(expires_at=expires_at), QUIET)

    assert isinstance(verdict, Skip) == expired


@pytest.mark.parametrize(
    ("choices", "detail"),
    [
        (None, "'comments' by push: not refused"),
        ({"comments": {"push": True}}, "'comments' by push: wanted"),
        ({"comments": {"email": False}}, "'comments' by push: not refused"),
        ({"news": {"push": False}}, "'comments' by push: not refused"),
        ({"comments": {"push": "no"}}, "'comments' by push: unreadable, which counts as yes"),
        ({"comments": 7}, "'comments' by push: unreadable, which counts as yes"),
    ],
)
def test_a_preference_that_is_not_a_no_lets_it_pass(choices: Any, detail: str) -> None:
    verdict = decide(case(person=Person(choices=choices)), QUIET)

    assert isinstance(verdict, Go)
    assert verdict.steps[0] == Step(rule="preference", result="pass", detail=detail, at=DAY)


def test_what_is_critical_cannot_be_refused() -> None:
    verdict = decide(case(person=REFUSED, kind=kind(critical=True)), QUIET)

    assert isinstance(verdict, Go)
    assert said(verdict)[0] == "preference pass: critical: preferences for 'comments' do not count"


def test_what_is_critical_is_still_held_by_night_and_by_a_toggle() -> None:
    critical = kind(critical=True)

    assert isinstance(decide(case(NIGHT, kind=critical), QUIET), Hold)
    assert isinstance(decide(case(kind=critical, off_by="channel:push"), QUIET), Hold)


def test_what_is_urgent_goes_at_night_but_not_against_a_no() -> None:
    urgent = kind(urgent=True)
    verdict = decide(case(NIGHT, kind=urgent), QUIET)

    assert isinstance(verdict, Go)
    assert said(verdict)[-1] == "quiet_hours pass: urgent: quiet hours do not count"
    assert isinstance(decide(case(NIGHT, kind=urgent, person=REFUSED), QUIET), Skip)


@pytest.mark.parametrize(
    ("changes", "window"),
    [
        ({}, "09:00-22:00 UTC (from the default), the window of the deployment"),
        (
            {"person": Person(timezone="Europe/Istanbul")},
            "09:00-22:00 Europe/Istanbul (from the person), the window of the deployment",
        ),
        (
            {"device_timezone": "Asia/Tokyo", "person": Person(timezone="Europe/Istanbul")},
            "09:00-22:00 Asia/Tokyo (from the device), the window of the deployment",
        ),
        (
            {"person": Person(gmt_offset_seconds=-3_600)},
            "09:00-22:00 UTC-01:00 (from the offset), the window of the deployment",
        ),
        (
            {"person": Person(timezone="Mars/Olympus", gmt_offset_seconds=3_600)},
            "09:00-22:00 UTC+01:00 (from the offset; unknown: Mars/Olympus), the window of the deployment",
        ),
        (
            {"device_timezone": "Here", "person": Person(timezone="Mars/Olympus")},
            "09:00-22:00 UTC (from the default; unknown: Here, Mars/Olympus), the window of the deployment",
        ),
        (
            {"person": Person(allowed_window="10:00-13:00")},
            "10:00-13:00 UTC (from the default), the window of the person",
        ),
        (
            {"person": Person(allowed_window="whenever")},
            (
                "09:00-22:00 UTC (from the default), the window of the deployment; "
                "the person's own cannot be read: "
                "'whenever' is not a window: write it as 09:00-22:00, or always"
            ),
        ),
    ],
)
def test_a_window_is_named_with_its_zone_and_where_both_came_from(
    changes: dict[str, Any], window: str
) -> None:
    verdict = decide(case(**changes), QUIET)

    assert said(verdict)[-1] == f"quiet_hours pass: within {window}"


def test_an_unknown_zone_is_named_when_it_holds_something_too() -> None:
    verdict = decide(case(NIGHT, device_timezone="Mars/Olympus"), QUIET)

    detail = deciding(verdict).detail
    assert (
        detail == "quiet hours 22:00-09:00 UTC (from the default; unknown: Mars/Olympus), of the deployment"
    )


def test_a_category_has_its_own_hours() -> None:
    quiet = QuietHours.compile(QuietHoursSettings(categories={"comments": "13:00-14:00"}))
    verdict = decide(case(), quiet)

    assert isinstance(verdict, Hold)
    assert verdict.until == DAY + HOUR + MINUTE
    assert deciding(verdict).detail == "quiet hours 14:00-13:00 UTC (from the default), of the category"


def test_no_quiet_hours_hold_nothing() -> None:
    quiet = QuietHours.compile(QuietHoursSettings(enabled=False))

    assert isinstance(decide(case(NIGHT), quiet), Go)


def test_what_is_held_is_spread_over_the_morning() -> None:
    quiet = QuietHours.compile(QuietHoursSettings(spread_seconds=600))
    moments = [decide(case(NIGHT, random=random), quiet) for random in (0.0, 0.5)]

    assert [each.until for each in moments if isinstance(each, Hold)] == [MORNING, MORNING + 5 * MINUTE]


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
    asked = case(person=Person(timezone=zone), send_at_local=wall(16, 10))
    held = decide(asked, QUIET)

    assert isinstance(held, Hold)
    assert (held.until, deciding(held).until) == (due, due)
    assert deciding(held).detail == f"asked for 2026-01-16 10:00 {zone} (from the person)"
    assert isinstance(decide(msgspec.structs.replace(asked, now=due), QUIET), Go)
    assert isinstance(decide(msgspec.structs.replace(asked, now=due - MINUTE), QUIET), Hold)


def test_a_wall_time_at_night_waits_for_the_morning_behind_it() -> None:
    asked = case(NIGHT, send_at_local=wall(15, 23, 30))
    verdict = decide(asked, QUIET)

    assert isinstance(verdict, Hold)
    assert verdict.until == MORNING
    assert [step.result for step in verdict.steps[-2:]] == ["pass", "hold"]


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
    asked = case(
        ends_at - MINUTE,
        person=Person(timezone=zone),
        send_at_local=wall(17, 10),
        accepted_at=accepted_at,
        expires_at=due_time(None, wall(17, 10), accepted_at) + 10 * MINUTE,
    )

    assert isinstance(decide(asked, QUIET), Go)
    late = decide(msgspec.structs.replace(asked, now=ends_at), QUIET)
    assert isinstance(late, Skip)
    assert late.reason == "expired"
