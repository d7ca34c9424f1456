"""Options that several commands share."""

import inspect
from collections.abc import Callable
from datetime import datetime
from typing import Any, Concatenate, TypeVar

from tocsin.domain.errors import FaultsError
from tocsin.domain.faults import Fault
from tocsin.domain.timing.moments import moment_faults

Value = TypeVar("Value")


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
