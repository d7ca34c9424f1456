"""All that one run found."""

import msgspec

from bench.contract import Chart, Reading
from bench.race.machine import Machine
from bench.race.standing import Standing


class LeftOut(msgspec.Struct, frozen=True):
    """A contestant that could not run here, and why."""

    title: str
    reason: str


class LineResult(msgspec.Struct, frozen=True):
    """A line's figures."""

    name: str
    title: str
    readings: tuple[Reading, ...]
    charts: tuple[Chart, ...] = ()


class Outcome(msgspec.Struct, frozen=True):
    """All that one run found, and where and how it was run."""

    date: str
    command: str
    machine: Machine
    versions: tuple[str, ...]
    latency_ms: float
    standings: tuple[Standing, ...]
    left_out: tuple[LeftOut, ...]
    lines: tuple[LineResult, ...]
