"""What the rounds of a contestant came to."""

import statistics
from collections.abc import Iterable

import msgspec

QUIET_CORES = 0.1


class Round(msgspec.Struct, frozen=True):
    """One contestant's run over one batch."""

    setting: str
    messages: int
    seconds: float
    cpu_seconds: float
    sandbox_cpu_seconds: float
    elsewhere_cpu_seconds: float

    @property
    def rate(self) -> float:
        """Give messages a second, from the first enqueue to the last answer."""
        return self.messages / self.seconds

    @property
    def cpu_micros(self) -> float:
        """Give microseconds of processor time a message."""
        return 1e6 * self.cpu_seconds / self.messages

    @property
    def sandbox_micros(self) -> float:
        """Give the sandbox's own microseconds a message, which are not the contestant's."""
        return 1e6 * self.sandbox_cpu_seconds / self.messages

    @property
    def elsewhere_cores(self) -> float:
        """Give how many cores were busy with neither the contestant, the sandbox nor the runner."""
        return max(0.0, self.elsewhere_cpu_seconds) / self.seconds


class Spread(msgspec.Struct, frozen=True):
    """The middle and the ends of what the rounds gave."""

    median: float
    low: float
    high: float


class Standing(msgspec.Struct, frozen=True):
    """What a contestant came to over all its rounds."""

    name: str
    title: str
    setting: str
    rounds: tuple[Round, ...]
    trials: tuple[Round, ...]
    peak_bytes: int

    @property
    def rate(self) -> Spread:
        """Give messages a second."""
        return spread(each.rate for each in self.rounds)

    @property
    def cpu_micros(self) -> Spread:
        """Give microseconds of processor time a message."""
        return spread(each.cpu_micros for each in self.rounds)

    @property
    def rate_per_core(self) -> float:
        """Return messages for each second of processor time, as one core of its own would take them."""
        return 1e6 / self.cpu_micros.median

    @property
    def sandbox_micros(self) -> Spread:
        """Give the sandbox's microseconds of processor time a message."""
        return spread(each.sandbox_micros for each in self.rounds)

    @property
    def elsewhere_cores(self) -> float:
        """Give how many cores were busy with other things in the worst round."""
        return max(each.elsewhere_cores for each in self.rounds)


def spread(values: Iterable[float]) -> Spread:
    """Take the median and the ends."""
    ordered = sorted(values)
    return Spread(median=statistics.median(ordered), low=ordered[0], high=ordered[-1])
