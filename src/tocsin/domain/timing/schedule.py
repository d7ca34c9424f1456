"""When a periodic producer runs: its schedule, and what becomes of runs that were missed."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, TypeAlias
from uuid import UUID

import msgspec

CatchUp: TypeAlias = Literal["last", "all", "none"]
"""Of the runs that were missed: make up for the last one, for all of them, or for none."""

ValueType: TypeAlias = Literal["timestamptz", "bigint", "text", "uuid"]

MISSED_AFTER = timedelta(minutes=1)
"""How late a run may be before it counts as missed, where missed runs are left out."""

LONGEST_REST = timedelta(minutes=15)
_FIRST_REST = timedelta(seconds=30)
_BIGINT = 2**63


class Schedule(msgspec.Struct, frozen=True):
    """Times in the notation of cron, by the wall clock of a time zone."""

    cron: str
    timezone: str = "UTC"
    catch_up: CatchUp = "last"


class RunFor(msgspec.Struct, frozen=True):
    """Run now, for this time of the schedule."""

    slot: datetime


class SkipTo(msgspec.Struct, frozen=True):
    """Leave out what was missed; the next run is at this time."""

    slot: datetime


Due: TypeAlias = RunFor | SkipTo


def choose_run(
    owed: datetime,
    now: datetime,
    catch_up: CatchUp,
    *,
    latest: Callable[[datetime], datetime],
    following: Callable[[datetime], datetime],
) -> Due:
    """Decide about runs that are owed since a time that has come.

    `latest` gives the last time of the schedule that is not after a moment, `following` the first
    one after it.
    """
    if catch_up == "all":
        return RunFor(owed)
    last = max(owed, latest(now))
    if catch_up == "none" and now - last > MISSED_AFTER:
        return SkipTo(following(now))
    return RunFor(last)


def rest_after(failures: int) -> timedelta:
    """Tell how long a producer rests that failed so many times in a row: twice as long each time."""
    doublings = min(max(failures - 1, 0), 10)
    return min(_FIRST_REST * (1 << doublings), LONGEST_REST)


def read_value(given: Any, value_type: ValueType) -> datetime | int | str | UUID:
    """Read a checkpoint of some type from JSON or text, or raise ValueError with what it must be."""
    try:
        match value_type:
            case "timestamptz":
                return _moment(given)
            case "bigint":
                return _whole(given)
            case "uuid":
                return UUID(str(given))
            case "text":
                return _words(given)
    except ValueError:
        raise ValueError(f"must be {_WANTED[value_type]}, not {given!r}") from None


_WANTED: dict[ValueType, str] = {
    "timestamptz": "a time with its offset, such as 2026-01-31T08:00:00Z",
    "bigint": "a whole number",
    "uuid": "a UUID",
    "text": "a text",
}


def _moment(given: Any) -> datetime:
    read = given if isinstance(given, datetime) else datetime.fromisoformat(str(given))
    if read.tzinfo is None:
        raise ValueError
    return read.astimezone(UTC)


def _words(given: Any) -> str:
    if not isinstance(given, str):
        raise ValueError  # noqa: TRY004 - a wrong type is a wrong value here
    return given


def _whole(given: Any) -> int:
    if isinstance(given, bool | float):
        raise ValueError  # noqa: TRY004 - a wrong type is a wrong value here
    read = int(given)
    if not -_BIGINT <= read < _BIGINT:
        raise ValueError
    return read
