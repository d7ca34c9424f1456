"""Log lines of functions: one JSON object each on standard output, which CloudWatch stores and searches."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Literal

import msgspec

Level = Literal["info", "warning", "error"]

_LONGEST_VALUE = 1_000
_NOTHING: dict[str, object] = {}
_bound: ContextVar[dict[str, object]] = ContextVar("bound", default=_NOTHING)


@contextmanager
def log_fields(**fields: object) -> Iterator[None]:
    """Add fields to every line that this thread logs within the context."""
    token = _bound.set(_bound.get() | fields)
    try:
        yield
    finally:
        _bound.reset(token)


def add_log_fields(**fields: object) -> None:
    """Add fields until the end of the context that this thread is in."""
    _bound.set(_bound.get() | fields)


class FunctionLog:
    """Writes the log lines of one module; fields without a value are left out."""

    def __init__(self, logger: str) -> None:
        self._logger = logger

    def info(self, event: str, **fields: object) -> None:
        """Log what happened as it should."""
        self._write("info", event, fields)

    def warning(self, event: str, **fields: object) -> None:
        """Log what is handled, but should not happen often."""
        self._write("warning", event, fields)

    def error(self, event: str, **fields: object) -> None:
        """Log what somebody has to look at."""
        self._write("error", event, fields)

    def _write(self, level: Level, event: str, fields: dict[str, object]) -> None:
        shown = _bound.get() | fields
        line = {
            "timestamp": datetime.now(UTC),
            "level": level,
            "event": event,
            "logger": self._logger,
            **{name: _bounded(value) for name, value in shown.items() if value is not None},
        }
        # In one call: lines of several threads are not mixed.
        sys.stdout.write(msgspec.json.encode(line).decode() + "\n")
        sys.stdout.flush()


def _bounded(value: object) -> object:
    if isinstance(value, str):
        # What cannot be encoded must not end an invocation.
        return value[:_LONGEST_VALUE].encode("utf-8", "replace").decode()
    return value
