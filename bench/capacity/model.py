"""What queueing theory says of a chain of stations: how much it takes, and for how long a message."""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

Z99 = 2.326
"""The 99th percentile of the normal distribution."""


class Station(NamedTuple):
    """A stop on the way of every message: slots that are each taken for some seconds.

    There are `partitions` of it, and a message belongs to one by its group. With `groups`, of which there are
    so many, each has one message at a time. Service times vary exponentially, as processor time does, or are
    fixed, as a quota is. With `every`, what is done leaves together, once in so many seconds.
    """

    name: str
    slots: int
    seconds: float
    partitions: int = 1
    groups: int = 0
    varies: bool = False
    every: float = 0.0

    @property
    def capacity(self) -> float:
        """The most messages a second."""
        slots = self.slots * self.partitions
        return min(slots, self.groups or slots) / self.seconds if self.seconds else math.inf


class Prediction(NamedTuple):
    """What a chain does at most, and how long it takes at a share of that."""

    rate: float
    first: str
    p99: float


def predict(stations: Sequence[Station], load: float) -> Prediction:
    """Predict a chain, with messages that arrive by chance and a share of its highest rate."""
    first = min(stations, key=lambda station: station.capacity)
    rate = load * first.capacity
    fixed, mean, variance = 0.0, 0.0, 0.0
    for station in stations:
        for waiting, spread in _waits(station, rate):
            mean += waiting
            variance += spread
        if station.varies:
            mean += station.seconds
            variance += station.seconds**2
        else:
            fixed += station.seconds
    # What leaves together waits for any time up to `every`: either that or the queues make the slowest.
    every = sum(station.every for station in stations)
    slowest = max(mean + 0.99 * every, _gamma_p99(mean, variance) + every / 2)
    return Prediction(first.capacity, first.name, fixed + slowest)


def _waits(station: Station, rate: float) -> Iterator[tuple[float, float]]:
    """Yield mean and variance of the wait for a slot, and of that for the group."""
    if station.seconds:
        yield _waiting(station, rate)
    if station.groups:
        yield _waiting(station._replace(slots=1, partitions=station.groups), rate)


def _waiting(station: Station, rate: float) -> tuple[float, float]:
    """Return mean and variance of the wait by Erlang's formula C, halved where service times are fixed."""
    offered = rate / station.partitions * station.seconds
    blocked = 1.0
    for number in range(1, station.slots + 1):
        blocked = offered * blocked / (number + offered * blocked)
    busy = offered / station.slots
    waits = blocked / (1 - busy * (1 - blocked))
    if_waiting = station.seconds / (station.slots * (1 - busy)) / (1 if station.varies else 2)
    return waits * if_waiting, waits * (2 - waits) * if_waiting**2


def _gamma_p99(mean: float, variance: float) -> float:
    """Return the 99th percentile of a gamma distribution, as Wilson and Hilferty approximate it."""
    if not variance:
        return mean
    ninth = variance / mean**2 / 9
    return mean * max(0.0, 1 - ninth + Z99 * math.sqrt(ninth)) ** 3
