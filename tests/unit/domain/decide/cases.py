"""Facts to decide about: a comment for a person with one phone, at noon, with nothing against it."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from tocsin.domain.catalog import NotificationType, Policies
from tocsin.domain.decide import Facts, Step, Verdict, decide
from tocsin.domain.people.profile import Destination, RecipientProfile
from tocsin.domain.timing.quiet_hours import QuietHours, QuietHoursSettings

DAY = datetime(2026, 1, 15, 12, 0, tzinfo=UTC)
NIGHT = datetime(2026, 1, 15, 23, 30, tzinfo=UTC)
MORNING = datetime(2026, 1, 16, 9, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
QUIET = QuietHours.compile(QuietHoursSettings(default_timezone="UTC"))

PROVIDERS = frozenset({"fcm", "apns", "webhook", "smtp"})
PHONE = Destination(UUID(int=1), "token-1", "fcm", "android")
TABLET = Destination(UUID(int=2), "token-2", "apns", "ios")
ENDPOINT = Destination(UUID(int=3), "https://shop.example/hook", "webhook", "web", secret="whsec_1")


def notification_type(**policies: Any) -> NotificationType:
    return NotificationType(
        name="comment",
        version=1,
        category="comments",
        channels=("push",),
        default_locale="en",
        payload_schema={},
        policies=Policies(**policies),
    )


def profile(**changes: Any) -> RecipientProfile:
    fields: dict[str, Any] = {"devices": (PHONE,)}
    return RecipientProfile(**fields | changes)


def facts(now: datetime = DAY, **changes: Any) -> Facts:
    fields: dict[str, Any] = {"type": notification_type(), "channel": "push", "profile": profile()}
    return Facts(now=now, **fields | changes)


def verdict_on(given: Facts, quiet: QuietHours = QUIET) -> Verdict:
    return decide(given, quiet, PROVIDERS)


def wall(day: int, hour: int, minute: int = 0) -> datetime:
    return datetime(2026, 1, day, hour, minute)  # noqa: DTZ001 - a wall time has no zone


def deciding(verdict: Verdict) -> Step:
    """Return the step that a verdict rests on."""
    return verdict.steps[-1]


def described(verdict: Verdict) -> list[str]:
    return [f"{step.rule} {step.result}: {step.detail}" for step in verdict.steps]
