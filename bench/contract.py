"""What a contestant, a line and the runner agree on."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Protocol

import msgspec


class Arena(msgspec.Struct, frozen=True):
    """What every contestant is given: one sandbox, of which the race uses FCM, and a folder of its own."""

    url: str
    """The sandbox's HTTPS address without a path, e.g. `https://127.0.0.1:4443`."""
    project: str
    credentials_file: Path
    ca_file: Path
    control_url: str
    """The sandbox's plain address, under which faults are put up and counts are read."""
    smtp_port: int
    apns_key_file: Path
    workdir: Path
    numbers: int
    """Every message number is below this, so that devices can be laid in before the clock starts."""


class Batch(msgspec.Struct, frozen=True):
    """A number of messages to send, each to a device of its own and with its own `delivery_id` in its data.

    The sandbox counts by `delivery_id`. Messages are numbered from 0, so later batches use the same devices
    again; `serial` tells the batches of one start apart.
    """

    serial: int
    count: int


def token(number: int) -> str:
    """Name the device that message `number` goes to."""
    return f"bench-{number}"


class Engine(Protocol):
    """A contestant that is up and waits for work."""

    roots: Sequence[int]
    """The process ids whose trees are counted: own processes, broker and database, never the sandbox."""

    async def deliver(self, batch: Batch) -> None:
        """Enqueue the batch and return once the contestant's own books say that all of it was sent."""
        ...


class Contestant(Protocol):
    """One way to get a message to FCM."""

    name: str
    """What `--only` and the JSON output call it."""
    title: str
    """What the tables call it."""
    settings: Sequence[str]
    """The settings to choose from, in its own words; the one fastest in a short trial is measured."""

    def absent(self) -> str | None:
        """Say why it cannot run on this machine, or None."""
        ...

    def versions(self) -> Sequence[str]:
        """Name the libraries and servers it stands on, with their versions."""
        ...

    def started(self, arena: Arena, setting: str) -> AbstractAsyncContextManager[Engine]:
        """Start its processes, and end them on the way out."""
        ...


class Goal(msgspec.Struct, frozen=True):
    """The bound a reading is held against."""

    bound: float
    least: bool
    """True: the reading must be at least the bound; False: at most."""

    def met(self, value: float) -> bool:
        """Tell whether the value is on the right side of the bound."""
        return value >= self.bound if self.least else value <= self.bound


class Reading(msgspec.Struct, frozen=True):
    """One figure of a line."""

    name: str
    value: float
    unit: str
    goal: Goal | None = None
    note: str = ""


class Curve(msgspec.Struct, frozen=True):
    """One figure as another one grows."""

    name: str
    points: tuple[tuple[float, float], ...]
    goals: tuple[tuple[float, float], ...] = ()
    """Where the curve must pass below."""


class Chart(msgspec.Struct, frozen=True):
    """Curves to be drawn together, with a logarithmic scale upwards."""

    name: str
    """What the picture's file is called, without its ending."""
    title: str
    across: str
    upwards: str
    curves: tuple[Curve, ...]


class Line(Protocol):
    """A measurement beside the race, such as the cost of a claim at a large backlog."""

    name: str
    title: str

    async def measure(self, arena: Arena) -> Sequence[Reading | Chart]:
        """Run it and report its figures, and charts of them."""
        ...
