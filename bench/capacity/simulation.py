"""The same chains with one message after another, by discrete events; the same seed gives the same."""

import heapq
import random
import statistics
from collections.abc import Sequence
from math import ceil
from typing import NamedTuple

from bench.capacity.model import Prediction, Station

SEED = 13
OVERLOAD = 1.3
PEOPLE = 10_000_000
WARM_UP = 5
"""Of so many parts the first is not counted."""


class Passage(NamedTuple):
    """When a message reached a station, and its number and group."""

    at: float
    number: int
    group: int


class Run(NamedTuple):
    """What a simulated load came to."""

    rate: float
    p99: float
    waits: dict[str, float]


def simulate(stations: Sequence[Station], rate: float, count: int, seed: int = SEED) -> Run:
    """Send messages through a chain, at moments by chance."""
    chance = random.Random(seed)
    at, began = 0.0, []
    for _ in range(count):
        at += chance.expovariate(rate)
        began.append(at)
    groups = min((station.groups for station in stations if station.groups), default=PEOPLE)
    passages = [Passage(at, number, chance.randrange(groups)) for number, at in enumerate(began)]
    waits = {}
    for station in stations:
        passages, waits[station.name] = _pass(station, passages, chance)
    skipped = count // WARM_UP
    took = [passage.at - began[passage.number] for passage in passages if passage.number >= skipped]
    # Neither the first messages, which fill the chain, nor the last, after which slots stay empty.
    early, late = passages[3 * count // 10].at, passages[6 * count // 10].at
    return Run(
        rate=(6 * count // 10 - 3 * count // 10) / (late - early),
        p99=statistics.quantiles(took, n=100)[98],
        waits=waits,
    )


def observe(stations: Sequence[Station], predicted: Prediction, load: float, count: int) -> Prediction:
    """Return what a simulation has where the model has its prediction: too much load, and a share of it."""
    flooded = simulate(stations, OVERLOAD * predicted.rate, count)
    loaded = simulate(stations, load * predicted.rate, count)
    first = max(flooded.waits, key=lambda name: flooded.waits[name])
    return Prediction(flooded.rate, first, loaded.p99)


def _pass(station: Station, passages: list[Passage], chance: random.Random) -> tuple[list[Passage], float]:
    """Return when messages leave a station, in that order, and their mean wait."""
    free = [[0.0] * station.slots for _ in range(station.partitions)]
    group_free: dict[int, float] = {}
    waited, leaving = 0.0, []
    for at, number, group in passages:
        partition = group % station.partitions
        slots = free[partition]
        start = max(at, slots[0], group_free.get(group, 0.0))
        seconds = chance.expovariate(1 / station.seconds) if station.varies else station.seconds
        done = start + seconds
        if station.seconds:
            heapq.heapreplace(slots, done)
        if station.groups:
            group_free[group] = done
        waited += start - at
        if station.every:
            # Not all partitions at the same moments.
            shift = station.every * partition / station.partitions
            done = shift + ceil((done - shift) / station.every) * station.every
        leaving.append(Passage(done, number, group))
    return sorted(leaving), waited / len(passages)
