from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from structlog.testing import capture_logs

from tocsin.domain.catalog import NotificationType
from tocsin.domain.decide import Facts, zone_of
from tocsin.domain.people.profile import Destination, RecipientProfile
from tocsin.domain.timing.quiet_hours import QuietHours, QuietHoursSettings
from tocsin.engine.dispatch.malformed import warn_of_malformed

QUIET = QuietHours.compile(QuietHoursSettings(default_timezone="UTC"))
NEWS = NotificationType(
    name="news", version=1, category="news", channels=("push",), default_locale="en", payload_schema={}
)


def facts(**known: Any) -> Facts:
    profile = RecipientProfile(**known)
    return Facts(type=NEWS, channel="push", now=datetime(2026, 1, 1, tzinfo=UTC), profile=profile)


def warn(user_id: str, known: Facts) -> None:
    warn_of_malformed(user_id, known, zone_of(known, QUIET))


def test_an_unknown_zone_is_logged_once_for_each_person() -> None:
    with capture_logs() as logs:
        for _ in range(3):
            warn("ada-of-the-zone", facts(timezone="Nowhere/Else"))

    assert [(log["event"], log["user_id"], log["unknown"], log["used"]) for log in logs] == [
        ("time zone ignored", "ada-of-the-zone", ["Nowhere/Else"], "UTC")
    ]


def test_an_unknown_zone_of_a_device_is_logged_too() -> None:
    phone = Destination(UUID(int=1), "token", "fcm", "android", timezone="Mars/Olympus")
    with capture_logs() as logs:
        warn("ada-of-the-phone", facts(devices=(phone,), timezone="Europe/Istanbul"))

    assert [(log["unknown"], log["used"]) for log in logs] == [(["Mars/Olympus"], "Europe/Istanbul")]


def test_unreadable_preferences_are_logged_once_for_each_person_and_category() -> None:
    with capture_logs() as logs:
        for _ in range(3):
            warn("ada-of-the-choices", facts(choices={"news": "odd"}))

    assert [(log["event"], log["user_id"], log["category"]) for log in logs] == [
        ("preferences ignored", "ada-of-the-choices", "news")
    ]


def test_values_that_can_be_used_are_not_logged() -> None:
    with capture_logs() as logs:
        warn("ada", facts(timezone="Europe/Istanbul", choices={"news": {"push": False}}))

    assert logs == []
