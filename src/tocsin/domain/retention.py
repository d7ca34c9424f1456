"""Retention: how long what is settled is kept, and at which hours it is pruned."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Annotated
from zoneinfo import ZoneInfo

import msgspec
from msgspec import Meta

from tocsin.domain.faults import Fault
from tocsin.domain.timing.windows import ALWAYS, Window
from tocsin.domain.timing.zones import is_known_timezone

Days = Annotated[float, Meta(ge=0, le=36_500)]


class RetentionSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How many days what is settled is kept; 0 means forever.

    `days` is for notifications, deliveries and attempts, `refused_days` for refused intents, `inbox_days` for
    the items of inboxes, `audit_days` for the audit, alarms and changes of toggles. An idempotency key is
    kept for `idempotency_days` after its notification was settled, or as long as the notification if that is
    longer. Deletes take `share` of the time of a pass, in batches of at most `batch_size` deliveries, by the
    cron `schedule` in UTC, and only at the `hours` of the `timezone`, such as `01:00-05:00`; without them at
    any time.
    """

    days: Days = 30
    refused_days: Days = 90
    inbox_days: Days = 90
    idempotency_days: Days = 7
    audit_days: Days = 365
    share: Annotated[float, Meta(gt=0, le=1)] = 0.2
    batch_size: Annotated[int, Meta(ge=100, le=50_000)] = 5_000
    schedule: str = "0 * * * *"
    hours: str | None = None
    timezone: str = "UTC"

    def is_open(self, now: datetime) -> bool:
        """Return whether rows may be pruned at a time."""
        return _window(self.hours).is_open(now.astimezone(ZoneInfo(self.timezone)))


class Cutoffs(msgspec.Struct, frozen=True, kw_only=True):
    """The times before which rows are pruned; None keeps all of them.

    Notifications settled before `keys` are deleted; those settled before `content` lose their content.
    """

    now: datetime
    content: datetime | None
    keys: datetime | None
    refused: datetime | None
    inbox: datetime | None
    audit: datetime | None

    @property
    def emptied(self) -> datetime | None:
        """The time before which notifications lost their content whose keys need not be kept any longer."""
        return self.now - (self.content - self.keys) if self.content and self.keys else None


def retention_settings_faults(settings: RetentionSettings) -> Iterator[Fault]:
    """List hours and a time zone that cannot be used."""
    try:
        _window(settings.hours)
    except ValueError as error:
        yield Fault(field="retention.hours", code="invalid", message=str(error))
    if not is_known_timezone(settings.timezone):
        message = f"{settings.timezone[:64]!r} is not a time zone: write a name such as Europe/Istanbul"
        yield Fault(field="retention.timezone", code="unknown_timezone", message=message)


def cutoffs(settings: RetentionSettings, now: datetime) -> Cutoffs:
    """Return the times before which rows are pruned in a pass at `now`."""
    forever = 0 in {settings.days, settings.idempotency_days}
    return Cutoffs(
        now=now,
        content=_before(now, settings.days),
        keys=None if forever else _before(now, max(settings.days, settings.idempotency_days)),
        refused=_before(now, settings.refused_days),
        inbox=_before(now, settings.inbox_days),
        audit=_before(now, settings.audit_days),
    )


def _before(now: datetime, days: float) -> datetime | None:
    return now - timedelta(days=days) if days else None


def _window(hours: str | None) -> Window:
    return ALWAYS if hours is None else Window.parse(hours)
