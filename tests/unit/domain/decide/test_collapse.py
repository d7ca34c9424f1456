"""Collapse: an older message gives way only to a newer one that would be sent."""

from typing import Any

import pytest

from tests.unit.domain.decide.cases import (
    DAY,
    HOUR,
    MINUTE,
    NIGHT,
    deciding,
    facts,
    notification_type,
    profile,
    verdict_on,
    wall,
)
from tocsin.domain.decide import Facts, FailoverState, Go, Refusal, Skip, Step
from tocsin.domain.delivery.reasons import Reason
from tocsin.domain.people.profile import RecipientProfile
from tocsin.domain.toggles import TypeToggle

URGENT = notification_type(urgent=True)


def older(newer: Facts | None, **changes: Any) -> Facts:
    return facts(newer=newer, **changes)


def test_a_newer_one_that_is_due_and_admitted_replaces_it() -> None:
    verdict = verdict_on(older(facts(accepted_at=DAY - MINUTE, expires_at=DAY + HOUR)))

    assert isinstance(verdict, Skip)
    assert verdict.reason is Reason.COLLAPSED
    assert deciding(verdict) == Step(
        rule="collapse_key", result="skip", detail="a newer one with the same collapse key is due", at=DAY
    )


def test_a_newer_one_whose_local_time_has_come_replaces_it() -> None:
    verdict = verdict_on(older(facts(send_at_local=wall(15, 12), accepted_at=DAY - HOUR)))

    assert isinstance(verdict, Skip)
    assert verdict.reason is Reason.COLLAPSED


def test_without_a_newer_one_no_rule_about_collapsing_is_recorded() -> None:
    verdict = verdict_on(older(None))

    assert isinstance(verdict, Go)
    assert "collapse_key" not in {step.rule for step in verdict.steps}


NOT_SENT = [
    pytest.param({"profile": profile(choices={"comments": {"push": False}})}, id="opted out"),
    pytest.param({"expires_at": DAY}, id="expired"),
    pytest.param({"send_at_local": wall(15, 13)}, id="not yet due at its local time"),
    pytest.param({"cancelled": True}, id="cancelled"),
    pytest.param({"switched_off": TypeToggle("comment")}, id="switched off"),
    pytest.param({"order_blockers": {None}}, id="behind an earlier one of its group"),
    pytest.param({"failover": FailoverState("push", HOUR, True, None)}, id="a fallback that is not needed"),
    pytest.param({"failover": FailoverState("push", HOUR, False, DAY)}, id="a fallback before its time"),
    pytest.param({"profile": RecipientProfile()}, id="without a device"),
]


@pytest.mark.parametrize("changes", NOT_SENT)
def test_a_newer_one_that_is_not_sent_never_replaces_it(changes: dict[str, Any]) -> None:
    newer = facts(**changes)
    assert not isinstance(verdict_on(newer), Go)

    verdict = verdict_on(older(newer))

    assert isinstance(verdict, Go)
    assert verdict == verdict_on(older(None))


def test_an_urgent_one_at_night_is_not_replaced_by_one_that_waits_for_the_morning() -> None:
    verdict = verdict_on(older(facts(NIGHT), now=NIGHT, type=URGENT))

    assert isinstance(verdict, Go)


@pytest.mark.parametrize("changes", NOT_SENT)
def test_what_is_refused_itself_keeps_its_own_reason(changes: dict[str, Any]) -> None:
    verdict = verdict_on(older(facts(), **changes))

    assert isinstance(verdict, Refusal)
    assert verdict == verdict_on(facts(**changes))
    assert deciding(verdict).rule != "collapse_key"
