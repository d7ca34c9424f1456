"""The settings of circuit breakers and rate limits."""

from collections.abc import Iterator, Mapping
from typing import Annotated, cast

import msgspec
from msgspec import Meta

from tocsin.domain.faults import Fault

Rate = Annotated[float, Meta(ge=0, le=1_000_000)]


class HealthSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When a circuit breaker opens and how long it stays open.

    It opens when, within a window, at least `least_attempts` were made and at least `error_share`
    of them failed by the provider's fault, or after `failures_in_a_row` without a success, if they took
    as long as a rest. A provider is probed after `rest_seconds`; a host of somebody else's rests twice as
    long each time that it opens again, at most `longest_rest_seconds`.
    """

    window_seconds: Annotated[float, Meta(gt=0, le=3_600)] = 10.0
    least_attempts: Annotated[int, Meta(ge=1, le=100_000)] = 10
    error_share: Annotated[float, Meta(gt=0, le=1)] = 0.5
    failures_in_a_row: Annotated[int, Meta(ge=1, le=100_000)] = 4
    rest_seconds: Annotated[float, Meta(gt=0, le=3_600)] = 3.0
    longest_rest_seconds: Annotated[float, Meta(gt=0, le=86_400)] = 60.0


def health_settings_faults(settings: HealthSettings) -> Iterator[Fault]:
    """List contradictions."""
    if settings.longest_rest_seconds < settings.rest_seconds:
        message = f"must be at least health.rest_seconds, which is {settings.rest_seconds:g}"
        yield Fault(field="health.longest_rest_seconds", code="contradiction", message=message)


class RatesSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How many messages a second go to each provider at most, from all workers together; 0 for no limit.

    After a provider was left alone, its rate grows from a tenth to the whole within `ramp_seconds`.
    """

    ramp_seconds: Annotated[float, Meta(ge=0, le=3_600)] = 30.0

    def of(self, provider: str) -> float:
        """Return the rate of a provider; 0 where it has no limit."""
        rate: float = getattr(self, provider, 0.0)
        return rate


def rates_type(defaults: Mapping[str, float]) -> type[RatesSettings]:
    """Build the settings section that has a rate for each provider."""
    fields = [(provider, Rate, rate) for provider, rate in defaults.items()]
    built = msgspec.defstruct("RatesSettings", fields, bases=(RatesSettings,), kw_only=True)
    return cast("type[RatesSettings]", built)
