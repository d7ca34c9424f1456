"""The gauge of messages that wait for the answer of their provider."""

from collections import Counter
from typing import Protocol
from weakref import WeakSet

from tocsin.telemetry import metrics
from tocsin.telemetry.samples import before_read


class Sending(Protocol):
    """Sends messages of one provider."""

    @property
    def in_flight(self) -> tuple[str, int]:
        """The provider, and how many messages wait for its answer."""


_sending: WeakSet[Sending] = WeakSet()


def gauge_in_flight(sending: Sending) -> None:
    """Count what is in flight there whenever the gauge is read, for as long as it exists."""
    _sending.add(sending)


def _measure() -> None:
    # A provider that hangs changes nothing by itself.
    counts: Counter[str] = Counter()
    for provider, count in (each.in_flight for each in _sending):
        counts[provider] += count
    for provider, count in counts.items():
        metrics.in_flight.set((provider,), count)


before_read(_measure)
