"""Counters, gauges and histograms as plain dictionaries of this process, read when somebody scrapes.

An update costs a dictionary look-up and an addition, without a lock or a call into a library: everything that
counts runs in one event loop.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal, TypeAlias

Labels: TypeAlias = tuple[str, ...]
Kind: TypeAlias = Literal["counter", "gauge", "histogram"]
Value: TypeAlias = float | list[float]
"""The value of a series; of a histogram the count of each bucket, and at last the sum of the values."""
Series: TypeAlias = Mapping[Labels, Value]

MOST_SERIES = 2_000
OTHER = "other"
"""Stands for every label of a series beyond the most that a metric may have."""


class Instrument:
    """What the instruments of every kind have in common: the name, the labels, and the series by labels."""

    kind: ClassVar[Kind]
    bounds: tuple[float, ...] = ()

    def __init__(
        self, name: str, description: str, labels: Sequence[str] = (), *, most_series: int = MOST_SERIES
    ) -> None:
        self.name = name
        self.description = description
        self.labels = tuple(labels)
        self.most_series = most_series

    @property
    def unit(self) -> str:
        """The unit of the values, by the name; empty for a number of things."""
        return "seconds" if self.name.removesuffix("_total").endswith("_seconds") else ""

    def read(self) -> Series:
        """Return the value of every series."""
        raise NotImplementedError

    def has_series(self, labels: Labels, value: Value) -> bool:
        """Return whether a series with these labels and such a value can be one of this instrument."""
        parts = len(value) if isinstance(value, list) else None
        wanted = len(self.bounds) + 2 if self.kind == "histogram" else None
        return len(labels) == len(self.labels) and parts == wanted

    def _bounded(self, labels: Labels, known: int) -> Labels:
        """Return the labels of a new series; beyond the most series they are all `other`."""
        if len(labels) != len(self.labels):
            raise ValueError(f"{self.name} has the labels {self.labels}, not {len(labels)} of them")
        return labels if known < self.most_series else (OTHER,) * len(labels)


class Counter(Instrument):
    """Counts up from the start of the process."""

    kind = "counter"

    def __init__(
        self, name: str, description: str, labels: Sequence[str] = (), *, most_series: int = MOST_SERIES
    ) -> None:
        super().__init__(name, description, labels, most_series=most_series)
        self._values: dict[Labels, float] = {}

    def add(self, labels: Labels, amount: float = 1) -> None:
        """Add an amount to the series with these labels."""
        try:
            self._values[labels] += amount
        except KeyError:
            labels = self._bounded(labels, len(self._values))
            self._values[labels] = self._values.get(labels, 0) + amount

    def read(self) -> Series:
        """Return the value of every series."""
        return self._values


class Gauge(Instrument):
    """A value that goes up and down; in a process tree the sum of all processes, or the `largest`."""

    kind = "gauge"

    def __init__(
        self, name: str, description: str, labels: Sequence[str] = (), *, largest: bool = False
    ) -> None:
        super().__init__(name, description, labels)
        self.largest = largest
        self._values: dict[Labels, float] = {}

    def set(self, labels: Labels, value: float) -> None:
        """Set the value of the series with these labels."""
        if labels not in self._values:
            labels = self._bounded(labels, len(self._values))
        self._values[labels] = value

    def add(self, labels: Labels, amount: float) -> None:
        """Add an amount, which may be negative, to the series with these labels."""
        self.set(labels, self._values.get(labels, 0) + amount)

    def replace(self, values: Mapping[Labels, float]) -> None:
        """Set the values of all series; those that are not among them end."""
        self._values = {}
        for labels, value in values.items():
            self.set(labels, value)

    def read(self) -> Series:
        """Return the value of every series."""
        return self._values


class Histogram(Instrument):
    """Counts values in fixed buckets; a bucket has the values up to its bound."""

    kind = "histogram"

    def __init__(
        self, name: str, description: str, labels: Sequence[str] = (), *, bounds: Sequence[float]
    ) -> None:
        super().__init__(name, description, labels)
        self.bounds = tuple(bounds)
        self._series: dict[Labels, list[float]] = {}

    def observe(self, labels: Labels, value: float, times: int = 1) -> None:
        """Count a value in the series with these labels, as often as it occurred."""
        series = self._series.get(labels)
        if series is None:
            labels = self._bounded(labels, len(self._series))
            series = self._series.setdefault(labels, [0.0] * (len(self.bounds) + 2))
        series[bisect_left(self.bounds, value)] += times
        series[-1] += value * times

    def read(self) -> Series:
        """Return the buckets and the sum of every series."""
        return self._series
