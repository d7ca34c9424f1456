"""Figures that a test measured, told at the end of the run."""

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

Figure: TypeAlias = Callable[[str, object], None]

_KEY = "figure"


def as_property(name: str, value: object) -> tuple[str, object]:
    """Write a figure as a property of a test, which travels with its report."""
    return _KEY, f"{name}: {value}"


def figures(reports: list[Any]) -> Iterator[str]:
    """List the figures that reports carry."""
    for report in reports:
        yield from (value for key, value in report.user_properties if key == _KEY)
