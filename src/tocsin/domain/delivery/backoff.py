"""Backoff: how long a delivery waits after a failed attempt."""

import math
import re
from datetime import timedelta
from itertools import pairwise
from typing import TypeAlias, assert_never

import msgspec

_UNITS = {
    "ms": timedelta(milliseconds=1),
    "s": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
}
_DURATION = re.compile(r"(?P<count>\d{1,9})(?P<unit>ms|s|m|h|d)", re.ASCII)
_CALL = re.compile(r"(?P<name>[a-z]+)\((?P<arguments>[^()]*)\)")
_LONGEST = timedelta(days=30)
_STEEPEST = 100


class Exponential(msgspec.Struct, frozen=True, tag="exponential"):
    """Delays that grow by a factor from `min` up to `max`, each varied by ± `jitter` of itself."""

    min: timedelta
    max: timedelta
    factor: float = 2.0
    jitter: float = 0.2

    def __post_init__(self) -> None:
        if not timedelta(0) < self.min <= self.max <= _LONGEST:
            raise ValueError("exponential needs 0 < min <= max <= 30d")
        if not 1 <= self.factor <= _STEEPEST:
            raise ValueError(
                f"the factor of exponential must be between 1 and {_STEEPEST}, not {self.factor:g}"
            )
        if not 0 <= self.jitter <= 1:
            raise ValueError(f"the jitter of exponential must be between 0 and 1, not {self.jitter:g}")


class Ladder(msgspec.Struct, frozen=True, tag="ladder"):
    """A list of delays; the last one repeats."""

    steps: tuple[timedelta, ...]

    def __post_init__(self) -> None:
        if not self.steps:
            raise ValueError("a ladder needs at least one step")
        if not all(timedelta(0) < step <= _LONGEST for step in self.steps):
            raise ValueError("each step of a ladder must be longer than 0 and at most 30d")
        if any(later < earlier for earlier, later in pairwise(self.steps)):
            raise ValueError("the steps of a ladder must not get shorter")


Backoff: TypeAlias = Exponential | Ladder


def delay(backoff: Backoff, attempt: int, random: float) -> timedelta:
    """Return the delay after failed attempt number `attempt`, which counts from 1.

    `random` lies in [0, 1) and selects the delay within its jitter.
    """
    if attempt < 1:
        raise ValueError(f"attempts count from 1, not {attempt}")
    match backoff:
        case Exponential(jitter=jitter):
            return _grown(backoff, attempt) * (1 + jitter * (2 * random - 1))
        case Ladder(steps=steps):
            return steps[min(attempt, len(steps)) - 1]
        case _:
            assert_never(backoff)


def _grown(backoff: Exponential, attempt: int) -> timedelta:
    """Return the delay before jitter, without computing a power too large for a float."""
    if backoff.factor > 1 and attempt - 1 >= math.log(backoff.max / backoff.min, backoff.factor):
        return backoff.max
    return min(backoff.max, backoff.min * backoff.factor ** (attempt - 1))


def parse_backoff(text: str) -> Backoff:
    """Parse `exponential(min, max, factor, jitter)` or `ladder(step, …)`."""
    call = _CALL.fullmatch(text.strip())
    arguments = [part.strip() for part in call["arguments"].split(",")] if call else []
    match call and call["name"], arguments:
        case "exponential", [_, _] | [_, _, _] | [_, _, _, _]:
            low, high, *spread = arguments
            return Exponential(parse_duration(low), parse_duration(high), *map(_number, spread))
        case "ladder", steps:
            return Ladder(tuple(parse_duration(step) for step in steps))
        case _:
            raise ValueError(
                f"{text!r} is not a backoff: write exponential(1s, 5m, 2, 0.2) or ladder(1m, 5m, 15m, 1h)"
            )


def parse_duration(text: str) -> timedelta:
    """Parse a duration such as `500ms`, `1s`, `5m`, `6h` or `1d`."""
    found = _DURATION.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is not a duration: write a whole number with ms, s, m, h or d")
    return int(found["count"]) * _UNITS[found["unit"]]


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a number") from None
