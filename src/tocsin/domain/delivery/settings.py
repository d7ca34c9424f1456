"""Deployment-wide defaults of the policies that a type does not declare."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Annotated

import msgspec
from msgspec import Meta

from tocsin.domain.catalog import CHANNELS, DEFAULT_ATTEMPTS, Policies, Recovery
from tocsin.domain.delivery.backoff import parse_backoff
from tocsin.domain.faults import Fault

MOST_ATTEMPTS = 100


LARGEST_AUDIENCE_BY_ATTRIBUTES = 10_000


class DeliverySettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What holds for types that declare nothing else: their time to live, attempts, backoff, and recovery.

    After the last attempt a delivery that failed by a fault of its provider is tried again every
    `recover_every_seconds`, for `recover_for_days` or until its time to live ends; 0 days means never.
    `channel_attempts` are those of a channel, where they differ from `attempts`. `largest_audience` is for
    how many people found by attributes the deliveries are planned and stored in one piece; for more it is a
    broadcast.
    """

    default_ttl_days: Annotated[float, Meta(gt=0, le=28)] = 28.0
    attempts: Annotated[int, Meta(ge=1, le=MOST_ATTEMPTS)] = DEFAULT_ATTEMPTS
    channel_attempts: dict[str, Annotated[int, Meta(ge=1, le=MOST_ATTEMPTS)]] = {}
    backoff: str = "exponential(1s, 5m, 2, 0.2)"
    recover_every_seconds: Annotated[float, Meta(ge=60, le=86_400)] = 300.0
    recover_for_days: Annotated[float, Meta(ge=0, le=28)] = 28.0
    largest_audience: Annotated[int, Meta(ge=1, le=20_000)] = LARGEST_AUDIENCE_BY_ATTRIBUTES

    @property
    def policies(self) -> Policies:
        """The policies of a type that declares none."""
        every, lasts = timedelta(seconds=self.recover_every_seconds), timedelta(days=self.recover_for_days)
        ttl = timedelta(days=self.default_ttl_days)
        return Policies(
            ttl_seconds=int(ttl.total_seconds()),
            attempts={channel: self.channel_attempts.get(channel, self.attempts) for channel in CHANNELS},
            backoff=parse_backoff(self.backoff),
            recover=Recovery(every=every, lasts=lasts),
        )


def delivery_settings_faults(settings: DeliverySettings) -> Iterator[Fault]:
    """List what is wrong with the defaults of policies."""
    try:
        parse_backoff(settings.backoff)
    except ValueError as error:
        yield Fault(field="delivery.backoff", code="invalid", message=str(error))
    if unknown := sorted(settings.channel_attempts.keys() - set(CHANNELS)):
        message = f"there is no channel {', '.join(unknown)[:80]}; there are {', '.join(CHANNELS)}"
        yield Fault(field="delivery.channel_attempts", code="unknown", message=message)
