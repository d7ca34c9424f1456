"""Options that several commands share."""

import inspect
import re
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, Concatenate, TypeVar

from tocsin.domain.errors import FaultsError
from tocsin.domain.faults import Fault
from tocsin.domain.timing.moments import moment_faults

Value = TypeVar("Value")

_SPAN = re.compile(r"(\d{1,6})([smhd])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def with_options_of(
    read: Callable[..., Value],
) -> Callable[[Callable[Concatenate[Value, ...], None]], Callable[..., None]]:
    """Convert a command that takes what `read` returns into one that takes the options of `read`."""
    options = inspect.signature(read).parameters

    def convert(command: Callable[Concatenate[Value, ...], None]) -> Callable[..., None]:
        _, *own = inspect.signature(command).parameters.values()

        def called(**given: Any) -> None:
            value = read(**{name: given.pop(name) for name in options})
            command(value, **given)

        called.__name__, called.__doc__ = command.__name__, command.__doc__
        # Typer reads the arguments and options from the signature.
        called.__dict__["__signature__"] = inspect.Signature([*options.values(), *own])
        return called

    return convert


def parse_moment(option: str, text: str) -> datetime:
    """Parse the time of an option, which must have an offset; raise FaultsError if it is invalid."""
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        parsed = None
    if parsed is None or parsed.tzinfo is None:
        message = f"{text[:80]!r} is not a time with its offset, such as 2030-01-31T03:00:00Z"
        raise FaultsError("The time is invalid:", [Fault(field=option, code="invalid", message=message)])
    if faults := moment_faults(option, parsed):
        raise FaultsError("The time is invalid:", faults)
    return parsed


def find_span(text: str) -> timedelta | None:
    """Return a span such as 30m, 24h or 7d, or None if the text is no span."""
    span = _SPAN.fullmatch(text)
    return timedelta(**{_UNITS[span[2]]: int(span[1])}) if span else None


def parse_span(option: str, text: str, longest: timedelta) -> timedelta:
    """Parse the span of an option, 0 included; raise FaultsError if it is invalid or too long."""
    span = timedelta() if text == "0" else find_span(text)
    if span is None or span > longest:
        message = f"{text[:80]!r} is not 0 or a span such as 30m, 24h or 7d, of at most {longest.days} days"
        raise FaultsError("The span is invalid:", [Fault(field=option, code="invalid", message=message)])
    return span
