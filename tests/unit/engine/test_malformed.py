from datetime import UTC, datetime

from structlog.testing import capture_logs

from tocsin.domain.catalog import NotificationType
from tocsin.domain.decide import Case, Person
from tocsin.domain.timing.quiet_hours import QuietHours, QuietHoursSettings
from tocsin.engine.dispatch.malformed import note_oddities

QUIET = QuietHours.compile(QuietHoursSettings())
KIND = NotificationType(
    name="news", version=1, category="news", channels=("push",), default_locale="en", payload_schema={}
)


def case(**person: object) -> Case:
    known = Person(**person)  # type: ignore[arg-type]
    return Case(kind=KIND, channel="push", now=datetime(2026, 1, 1, tzinfo=UTC), person=known)


def test_an_unknown_zone_is_told_of_once_a_person() -> None:
    with capture_logs() as logs:
        for _ in range(3):
            note_oddities("ada-of-the-zone", case(timezone="Nowhere/Else"), QUIET)

    assert [(log["unknown"], log["used"]) for log in logs] == [(["Nowhere/Else"], "UTC")]


def test_unreadable_preferences_are_told_of_once_a_person_and_category() -> None:
    with capture_logs() as logs:
        for _ in range(3):
            note_oddities("ada-of-the-choices", case(choices={"news": "odd"}), QUIET)

    assert [log["category"] for log in logs] == ["news"]


def test_what_is_in_order_is_not_told_of() -> None:
    with capture_logs() as logs:
        note_oddities("ada", case(timezone="Europe/Istanbul", choices={"news": {"push": False}}), QUIET)

    assert logs == []
