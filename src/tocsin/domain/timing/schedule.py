"""When a periodic producer runs: its schedule, missed runs, backoff after failures, and checkpoint values."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, TypeAlias
from uuid import UUID

import msgspec

CatchUp: TypeAlias = Literal["last", "all", "none"]
"""Which missed runs are made up for: the last one, all of them, or none."""

ValueType: TypeAlias = Literal["timestamptz", "bigint", "text", "uuid"]

MISSED_AFTER = timedelta(minutes=1)
"""How late a run may start before it counts as missed when `catch_up` is `none`."""

LONGEST_PAUSE = timedelta(minutes=15)
_FIRST_PAUSE = timedelta(seconds=30)
_BIGINT = 2**63


class Schedule(msgspec.Struct, frozen=True):
    """A cron expression in the wall time of a time zone."""

    cron: str
    timezone: str = "UTC"
    catch_up: CatchUp = "last"


class RunFor(msgspec.Struct, frozen=True):
    """Run now, for this time slot of the schedule."""

    slot: datetime


class SkipTo(msgspec.Struct, frozen=True):
    """Skip the missed runs; the next run is at this time slot."""

    slot: datetime


Due: TypeAlias = RunFor | SkipTo


def choose_run(
    due: datetime,
    now: datetime,
    catch_up: CatchUp,
    *,
    latest: Callable[[datetime], datetime],
    following: Callable[[datetime], datetime],
) -> Due:
    """Decide which run to start when the time slot `due` has passed.

    `latest` returns the last time slot that is not after a given time, `following` the first one after it.
    """
    if catch_up == "all":
        return RunFor(due)
    last = max(due, latest(now))
    if catch_up == "none" and now - last > MISSED_AFTER:
        return SkipTo(following(now))
    return RunFor(last)


def pause_after(failures: int) -> timedelta:
    """Return how long a producer pauses after this many failures in a row; it doubles each time."""
    doublings = min(max(failures - 1, 0), 10)
    return min(_FIRST_PAUSE * (1 << doublings), LONGEST_PAUSE)


def read_value(given: Any, value_type: ValueType) -> datetime | int | str | UUID:
    """Parse a checkpoint value from JSON or text, or raise ValueError with what it must be."""
    parse, wanted = _PARSERS[value_type]
    try:
        return parse(given)
    except (ValueError, TypeError, OverflowError):
        raise ValueError(f"must be {wanted}, not {given!r:.100}") from None


def _timestamp(given: Any) -> datetime:
    read = given if isinstance(given, datetime) else datetime.fromisoformat(str(given))
    if read.tzinfo is None:
        raise ValueError
    return read.astimezone(UTC)


def _bigint(given: Any) -> int:
    if isinstance(given, bool | float):
        raise ValueError  # noqa: TRY004 - a wrong type is a wrong value here
    read = int(given)
    if not -_BIGINT <= read < _BIGINT:
        raise ValueError
    return read


def _text(given: Any) -> str:
    if not isinstance(given, str):
        raise ValueError  # noqa: TRY004 - a wrong type is a wrong value here
    return given


_PARSERS: dict[ValueType, tuple[Callable[[Any], datetime | int | str | UUID], str]] = {
    "timestamptz": (_timestamp, "a time with its offset, such as 2026-01-31T08:00:00Z"),
    "bigint": (_bigint, "a whole number"),
    "uuid": (lambda given: UUID(str(given)), "a UUID"),
    "text": (_text, "a text"),
}
