"""Decides once for all deliveries of a moment that the rules cannot tell apart."""

from datetime import datetime
from typing import TypeAlias

from tocsin.domain.catalog import Channel, NotificationType
from tocsin.domain.decide import Step, device_timezone
from tocsin.domain.people.preferences import Choice, allows
from tocsin.store.deliveries.claim import ClaimedDelivery

Case: TypeAlias = tuple[str, int, str, Channel, bool, str | None, str | None, int | None, str | None]
"""All that rules look at in a delivery which has nothing special about it, besides its time to live.

Its type, version, category and channel, whether the person chose it, and what their time zone and window
come from.
"""


class PassedCases:
    """The steps of deliveries that every rule let pass; those of another moment are forgotten."""

    def __init__(self) -> None:
        self._at: datetime | None = None
        self._steps: dict[Case, tuple[Step, ...]] = {}

    def find(self, case: Case, now: datetime) -> tuple[Step, ...] | None:
        """Return the steps of a delivery that passed at this very moment."""
        return self._steps.get(case) if now is self._at else None

    def add(self, case: Case, now: datetime, steps: tuple[Step, ...]) -> None:
        """Keep the steps of a delivery that no rule and no limit stopped."""
        if now is not self._at:
            self._at, self._steps = now, {}
        self._steps[case] = steps


def case_of(delivery: ClaimedDelivery, type_: NotificationType, now: datetime) -> Case | None:
    """Return the case of a delivery; None for one that a rule looks at more closely."""
    if (
        delivery.cancelled
        or delivery.superseded
        or delivery.order_blockers
        or delivery.newer is not None
        or delivery.fallback_for is not None
        or delivery.send_at_local is not None
        or (delivery.expires_at is not None and delivery.expires_at <= now)
    ):
        return None
    profile = delivery.profile
    is_wanted = False
    if profile.choices is not None:
        choice = allows(profile.choices, type_.category, delivery.channel)
        if choice is not Choice.YES and choice is not Choice.DEFAULT_YES:
            return None
        is_wanted = choice is Choice.YES
    return (
        delivery.type,
        delivery.version,
        type_.category,
        delivery.channel,
        is_wanted,
        device_timezone(profile),
        profile.timezone,
        profile.gmt_offset_seconds,
        profile.allowed_window,
    )
