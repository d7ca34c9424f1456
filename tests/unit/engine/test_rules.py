"""Deliveries that the rules cannot tell apart are decided once, and each as if it were decided alone."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from tests.catalogs import shipped
from tests.unit.engine.attempts import LEASE, NOW, PHONE, a_claimed_delivery
from tocsin.domain.decide import Hold, Skip
from tocsin.domain.delivery.reasons import Reason
from tocsin.domain.limits import LimitsSettings
from tocsin.domain.people.profile import RecipientProfile
from tocsin.domain.timing.quiet_hours import QuietHours, QuietHoursSettings
from tocsin.engine.dispatch.attempt import Attempt
from tocsin.engine.dispatch.rules import DeliveryRules
from tocsin.engine.toggles.toggles import Toggles
from tocsin.store.deliveries.context import NewerMessage

CATALOG = shipped()
LIMITS = (LimitsSettings(), LimitsSettings(per_person_per_day=3), LimitsSettings(categories={"customers": 2}))
QUIET = QuietHours.compile(QuietHoursSettings(end="13:00"))


@pytest.fixture(scope="module")
def toggles() -> Iterator[Toggles]:
    toggles = Toggles()
    yield toggles
    toggles.close()


def rules(toggles: Toggles, limits: LimitsSettings = LIMITS[0]) -> DeliveryRules:
    return DeliveryRules(
        catalog=CATALOG, providers=frozenset({"fcm"}), toggles=toggles, quiet=QUIET, limits=limits
    )


def an_attempt(devices: tuple[Any, ...] = (PHONE,), known: Any = None, **changes: Any) -> Attempt:
    profile = RecipientProfile(devices=devices, **(known or {}))
    of_type = {"type": "new_customer", "version": 2, "payload": '{"customer_name": "Ada"}'}
    return Attempt.of(a_claimed_delivery(profile=profile, **{**of_type, **changes}), LEASE, NOW)


def decided(by: DeliveryRules, attempt: Attempt, now: datetime = NOW) -> tuple[Any, ...]:
    refusal = by.decide_attempt(attempt, now)
    prepared = (attempt.type, attempt.payload, attempt.steps, attempt.destinations, attempt.expires_at)
    return refusal, *prepared, attempt.allowances, attempt.limited


unusual: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {},
    optional={
        "version": st.sampled_from([1, 2, 3]),
        "payload": st.sampled_from(['{"customer_name": "Bo"}', '{"customerName": "Cy"}']),
        "user_id": st.sampled_from(["ada", "bo", None]),
        "address": st.just("topic:news"),
        "device_id": st.sampled_from([PHONE.id, UUID(int=1)]),
        "cancelled": st.booleans(),
        "superseded": st.booleans(),
        "reserved": st.booleans(),
        "order_blockers": st.sampled_from([(None,), (PHONE.id,)]),
        "expires_at": st.sampled_from([NOW, NOW + timedelta(hours=1)]),
        "send_at_local": st.sampled_from([datetime(2026, 3, 1, 9), datetime(2026, 3, 1, 23)]),  # noqa: DTZ001 - a wall time
        "newer": st.just(NewerMessage(version=2, accepted_at=NOW, expires_at=None, send_at_local=None)),
        "devices": st.sampled_from([(), (PHONE._replace(timezone="Asia/Tokyo"),)]),
        "known": st.fixed_dictionaries(
            {},
            optional={
                "timezone": st.sampled_from(["Europe/Berlin", "Asia/Tokyo", "Nowhere"]),
                "gmt_offset_seconds": st.sampled_from([0, 36_000]),
                "allowed_window": st.sampled_from(["always", "12:00-13:00", "22:00-23:00", "wrong"]),
                "choices": st.sampled_from(
                    [{}, {"customers": {"push": True}}, {"customers": {"push": False}}, {"customers": 1}]
                ),
            },
        ),
    },
)


@given(st.lists(unusual, max_size=3), unusual, st.sampled_from(LIMITS))
def test_what_others_passed_changes_no_decision(
    toggles: Toggles, before: list[dict[str, Any]], changes: dict[str, Any], limits: LimitsSettings
) -> None:
    shared = rules(toggles, limits)
    for each in (*before, {}):
        shared.decide_attempt(an_attempt(**each), NOW)

    assert decided(shared, an_attempt(**changes)) == decided(rules(toggles, limits), an_attempt(**changes))


def test_deliveries_of_one_moment_share_their_steps(toggles: Toggles) -> None:
    shared = rules(toggles)
    first, second, later = an_attempt(), an_attempt(user_id="bo"), an_attempt()
    shared.decide_attempt(first, NOW)
    shared.decide_attempt(second, NOW)
    shared.decide_attempt(later, NOW + timedelta(seconds=1))

    assert second.steps is first.steps
    assert {step.at for step in later.steps} == {NOW + timedelta(seconds=1)}


def test_one_without_a_device_is_skipped_whoever_passed_before(toggles: Toggles) -> None:
    shared = rules(toggles)
    shared.decide_attempt(an_attempt(), NOW)

    refusal = shared.decide_attempt(an_attempt(devices=()), NOW)

    assert isinstance(refusal, Skip)
    assert refusal.reason is Reason.NO_DEVICE


def test_a_type_that_is_unknown_is_held(toggles: Toggles) -> None:
    assert isinstance(rules(toggles).decide_attempt(an_attempt(version=9), NOW), Hold)


def test_each_person_with_an_unknown_zone_is_warned_of(toggles: Toggles) -> None:
    shared = rules(toggles)
    with capture_logs() as logs:
        for user_id in ("zoe-1", "zoe-2"):
            shared.decide_attempt(an_attempt(user_id=user_id, known={"timezone": "Nowhere/2"}), NOW)

    assert [log["user_id"] for log in logs if log["event"] == "time zone ignored"] == ["zoe-1", "zoe-2"]
