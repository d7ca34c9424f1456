from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import msgspec
import pytest

from tocsin.domain.catalog import NotificationType, Policies, Throttle
from tocsin.domain.decide import Skip, Step, Wait
from tocsin.domain.delivery.reasons import Reason
from tocsin.domain.limits import (
    Allowance,
    Beyond,
    LimitsSettings,
    device_allowances,
    limit_verdict,
    person_allowances,
)

NOW = datetime(2026, 1, 15, 12, 0, tzinfo=UTC)
ISTANBUL = ZoneInfo("Europe/Istanbul")
MIDNIGHT = datetime(2026, 1, 15, 21, 0, tzinfo=UTC)
PHONE = UUID(int=7)


def comment(throttle: Throttle | None = None) -> NotificationType:
    return NotificationType(
        name="comment",
        version=1,
        category="comments",
        channels=("push",),
        default_locale="en",
        payload_schema={},
        policies=Policies(throttle=throttle),
    )


def of_person(throttle: Throttle | None = None, **settings: Any) -> list[Allowance]:
    return list(person_allowances(LimitsSettings(**settings), comment(throttle), "ada", ISTANBUL, NOW))


def test_nothing_set_counts_nothing() -> None:
    assert of_person() == []
    assert list(device_allowances(LimitsSettings(), PHONE, ISTANBUL, NOW)) == []


def test_a_person_counts_in_their_own_day() -> None:
    assert of_person(per_person_per_day=3) == [
        Allowance(
            key="person:ada",
            limit=3,
            ends_at=MIDNIGHT,
            reason=Reason.DAILY_LIMIT,
            beyond="skip",
            detail="3 a day for a person",
        )
    ]


def test_a_device_counts_in_the_day_of_its_person() -> None:
    settings = LimitsSettings(per_device_per_day=2, beyond="defer")

    assert list(device_allowances(settings, PHONE, ISTANBUL, NOW)) == [
        Allowance(
            key=f"device:{PHONE}",
            limit=2,
            ends_at=MIDNIGHT,
            reason=Reason.DAILY_LIMIT,
            beyond="defer",
            detail="2 a day for a device",
        )
    ]


def test_only_the_category_of_the_type_counts() -> None:
    assert of_person(categories={"news": 1}) == []
    (allowance,) = of_person(categories={"news": 1, "comments": 5}, beyond="defer")

    assert (allowance.key, allowance.limit, allowance.ends_at) == ("category:comments:ada", 5, MIDNIGHT)
    assert (allowance.beyond, allowance.detail) == ("defer", "5 a day for a person in 'comments'")


@pytest.mark.parametrize(
    ("per", "ends_at", "detail"),
    [
        (timedelta(hours=1), datetime(2026, 1, 15, 13, tzinfo=UTC), "2 of comment in 1h"),
        (timedelta(minutes=90), datetime(2026, 1, 15, 13, 30, tzinfo=UTC), "2 of comment in 90m"),
        (timedelta(seconds=45), datetime(2026, 1, 15, 12, 0, 45, tzinfo=UTC), "2 of comment in 45s"),
        (timedelta(days=1), datetime(2026, 1, 16, tzinfo=UTC), "2 of comment in 1d"),
    ],
)
def test_a_throttle_counts_in_windows_of_its_own(per: timedelta, ends_at: datetime, detail: str) -> None:
    (allowance,) = of_person(Throttle(limit=2, per=per, beyond="defer"), beyond="skip")

    assert allowance == Allowance(
        key="type:comment:ada",
        limit=2,
        ends_at=ends_at,
        reason=Reason.THROTTLED,
        beyond="defer",
        detail=detail,
    )


def test_everything_that_is_set_counts() -> None:
    allowances = of_person(
        Throttle(limit=2, per=timedelta(hours=1)), per_person_per_day=3, categories={"comments": 5}
    )

    assert [each.key for each in allowances] == ["person:ada", "category:comments:ada", "type:comment:ada"]


@pytest.mark.parametrize(
    "settings",
    [
        {"per_person_per_day": 0},
        {"per_device_per_day": -1},
        {"categories": {"comments": 0}},
        {"beyond": "drop"},
        {"per_week": 3},
    ],
    ids=repr,
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(settings, LimitsSettings)


def full(beyond: Beyond) -> Allowance:
    return Allowance(
        key="type:comment:ada",
        limit=2,
        ends_at=MIDNIGHT,
        reason=Reason.THROTTLED,
        beyond=beyond,
        detail="2 of comment in 1h",
    )


def test_one_too_many_is_skipped_with_the_reason_of_its_limit() -> None:
    step = Step(rule="limit", result="skip", detail="2 of comment in 1h", at=NOW)

    assert limit_verdict(full("skip"), NOW) == Skip((step,), Reason.THROTTLED)


def test_one_too_many_waits_until_the_window_ends_where_the_limit_defers() -> None:
    step = Step(rule="limit", result="hold", detail="2 of comment in 1h", at=NOW, until=MIDNIGHT)

    assert limit_verdict(full("defer"), NOW) == Wait((step,), MIDNIGHT)
