"""Options that several commands share."""

import inspect
from collections.abc import Callable
from typing import Any, Concatenate, TypeVar

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
