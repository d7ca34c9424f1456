from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.domain.decide.cases import (
    DAY,
    HOUR,
    MINUTE,
    MORNING,
    NIGHT,
    PHONE,
    deciding,
    described,
    facts,
    notification_type,
    profile,
    verdict_on,
    wall,
)
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
from tocsin.domain.toggles import ChannelToggle, TypeToggle

REFUSED = RecipientProfile(choices={"comments": {"push": False}})
UNREACHABLE = RecipientProfile()


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
