from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

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
    notification_type,
    profile,
    verdict_on,
    wall,
)
from tocsin.domain.catalog import Channel
from tocsin.domain.decide import (
    Cancel,
    Expire,
    FailoverState,
    Go,
    Hold,
    Skip,
    Step,
    Verdict,
    Wait,
)
from tocsin.domain.delivery.held_by import HeldByOrder, HeldByToggle
from tocsin.domain.delivery.reasons import MEANING, Reason, Rule
from tocsin.domain.people.profile import RecipientProfile
from tocsin.domain.plan import due_time
from tocsin.domain.timing.quiet_hours import QuietHours, QuietHoursSettings
from tocsin.domain.toggles import ChannelToggle, TypeToggle

REFUSED = RecipientProfile(choices={"comments": {"push": False}})
UNREACHABLE = RecipientProfile()
DEFAULT = QuietHours.compile(QuietHoursSettings())


def test_nothing_against_it_sends_it_and_records_every_rule_it_passed() -> None:
    verdict = verdict_on(facts())

    assert isinstance(verdict, Go)
    assert verdict.destinations == (PHONE,)
    assert described(verdict) == [
        "preference pass: 'comments' by push: not refused",
        "toggle pass: switched on",
        "quiet_hours pass: within 09:00-22:00 UTC (from the default), the window of the deployment",
    ]
    assert all(step.at == DAY and step.until is None for step in verdict.steps)


# Each objection by itself, in the order in which the rules are applied: what it changes, and what follows.
OBJECTIONS: list[tuple[Rule, dict[str, Any], Verdict, str]] = [
    ("cancelled", {"cancelled": True}, Cancel(()), "cancelled by its producer"),
    ("time_to_live", {"expires_at": DAY}, Expire(()), "its time to live ended 2026-01-15 12:00:00 UTC"),
    ("preference", {"profile": REFUSED}, Skip((), Reason.OPTED_OUT), "opted out of 'comments' by push"),
    (
        "toggle",
        {"switched_off": TypeToggle("comment")},
        Hold((), HeldByToggle(TypeToggle("comment"))),
        "type:comment is switched off",
    ),
    (
        "failover",
        {"failover": FailoverState("push", HOUR, confirmed=True, awaited_at=None)},
        Skip((), Reason.FAILOVER_NOT_NEEDED),
        "the push was sent in time",
    ),
    (
        "order",
        {"order_blockers": {None}},
        Hold((), HeldByOrder()),
        "an earlier one of its group is not settled yet",
    ),
    (
        "local_time",
        {"send_at_local": wall(17, 8)},
        Wait((), datetime(2026, 1, 17, 8, tzinfo=UTC)),
        "asked for 2026-01-17 08:00 UTC (from the default)",
    ),
    (
        "quiet_hours",
        {"now": NIGHT},
        Wait((), MORNING),
        "quiet hours 22:00-09:00 UTC (from the default), of the deployment",
    ),
    ("device", {"profile": UNREACHABLE}, Skip((), Reason.NO_DEVICE), MEANING[Reason.NO_DEVICE]),
    (
        "collapse_key",
        {"newer": facts()},
        Skip((), Reason.COLLAPSED),
        "a newer one with the same collapse key is due",
    ),
]
RULES = [rule for rule, *_ in OBJECTIONS]


def changes_of(places: Iterable[int]) -> dict[str, Any]:
    """Merge objections; where two change the same fact, the earlier one includes the later."""
    merged: dict[str, Any] = {}
    for place in sorted(places, reverse=True):
        merged |= OBJECTIONS[place][1]
    return merged


def test_every_rule_that_a_decision_can_rest_on_is_in_the_table() -> None:
    # Limits, digests and providers have their turn after the decision; a replay is recorded before it.
    assert set(RULES) == set(get_args(Rule)) - {"type", "limit", "digest", "provider", "replay"}


@pytest.mark.parametrize("place", range(len(OBJECTIONS)), ids=RULES)
def test_the_first_objection_decides_and_is_the_last_step(place: int) -> None:
    # Every later rule objects as well.
    given_facts = facts(**changes_of(range(place, len(OBJECTIONS))))
    rule, _, expected, detail = OBJECTIONS[place]

    verdict = verdict_on(given_facts)

    assert msgspec.structs.replace(verdict, steps=()) == expected
    step = deciding(verdict)
    assert (step.rule, step.detail, step.at) == (rule, detail, given_facts.now)
    assert step.result == ("hold" if isinstance(expected, Wait | Hold) else "skip")
    assert step.until == (expected.until if isinstance(expected, Wait) else None)
    assert [before.result for before in verdict.steps[:-1]] == ["pass"] * (len(verdict.steps) - 1)


@given(st.sets(st.sampled_from(range(len(OBJECTIONS)))))
def test_it_is_sent_only_if_no_rule_objects(places: set[int]) -> None:
    verdict = verdict_on(facts(**changes_of(places)))

    if places:
        assert not isinstance(verdict, Go)
        assert deciding(verdict).rule == RULES[min(places)]
        assert [step.result for step in verdict.steps].count("pass") == len(verdict.steps) - 1
    else:
        assert isinstance(verdict, Go)
        assert all(step.result == "pass" for step in verdict.steps)


@pytest.mark.parametrize(
    ("expires_at", "expired"),
    [(None, False), (DAY + MINUTE, False), (DAY, True), (DAY - MINUTE, True)],
)
def test_a_time_to_live_ends_at_its_last_moment(expires_at: datetime | None, *, expired: bool) -> None:
    verdict = verdict_on(facts(expires_at=expires_at))

    assert isinstance(verdict, Expire if expired else Go)


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
    verdict = verdict_on(facts(profile=profile(choices=choices)))

    assert isinstance(verdict, Go)
    assert verdict.steps[0] == Step(rule="preference", result="pass", detail=detail, at=DAY)


def test_what_is_critical_cannot_be_refused() -> None:
    refused = profile(choices=REFUSED.choices)
    verdict = verdict_on(facts(profile=refused, type=notification_type(critical=True)))

    assert isinstance(verdict, Go)
    assert described(verdict)[0] == "preference pass: critical: preferences for 'comments' do not count"


def test_what_is_critical_still_waits_at_night_and_is_held_by_a_toggle() -> None:
    critical = notification_type(critical=True)
    off = ChannelToggle("push")

    assert isinstance(verdict_on(facts(NIGHT, type=critical)), Wait)
    held = verdict_on(facts(type=critical, switched_off=off))
    assert isinstance(held, Hold)
    assert held.held_by == HeldByToggle(off)


def test_what_is_urgent_is_sent_at_night_but_not_against_a_no() -> None:
    urgent = notification_type(urgent=True)
    verdict = verdict_on(facts(NIGHT, type=urgent))

    assert isinstance(verdict, Go)
    assert described(verdict)[-1] == "quiet_hours pass: urgent: quiet hours do not count"
    refused = verdict_on(facts(NIGHT, type=urgent, profile=REFUSED))
    assert isinstance(refused, Skip)
    assert refused.reason is Reason.OPTED_OUT


@pytest.mark.parametrize(
    ("confirmed", "awaited_at", "expected", "detail"),
    [
        (True, None, Skip((), Reason.FAILOVER_NOT_NEEDED), "the push was sent in time"),
        (True, DAY + HOUR, Skip((), Reason.FAILOVER_NOT_NEEDED), "the push was sent in time"),
        (False, DAY + HOUR, Wait((), DAY + HOUR + 10 * MINUTE), "the push has its own time first"),
        (False, DAY - 9 * MINUTE, Wait((), DAY + MINUTE), "the push has its own time first"),
        (False, DAY - 10 * MINUTE, None, "the push was not sent in time"),
        (False, None, None, "the push was not sent in time"),
    ],
)
def test_a_fallback_is_sent_only_after_the_first_channel_had_its_time(
    *, confirmed: bool, awaited_at: datetime | None, expected: Verdict | None, detail: str
) -> None:
    state = FailoverState("push", 10 * MINUTE, confirmed, awaited_at)
    verdict = verdict_on(facts(channel="email", profile=profile(mailbox="a@b.example"), failover=state))

    step = next(step for step in verdict.steps if step.rule == "failover")
    assert step.detail == detail
    if expected is None:
        assert isinstance(verdict, Go)
        assert step.result == "pass"
    else:
        assert msgspec.structs.replace(verdict, steps=()) == expected
        assert step.until == (expected.until if isinstance(expected, Wait) else None)


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
