"""What the command line prints: text for people, JSON for programs."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, NoReturn, TypeVar

import msgspec
import typer
from rich.console import Console
from rich.table import Table
from rich.tree import Tree

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]

Row = TypeVar("Row")

console = Console(highlight=False, emoji=False)
errors = Console(stderr=True, highlight=False, emoji=False)
# A tree is cut at the width of its console, even with soft_wrap: lines that are piped get a wide one.
_unbroken = Console(highlight=False, emoji=False, width=10_000)


def print_json(value: Any) -> None:
    """Print a value as JSON, indented."""
    typer.echo(msgspec.json.format(msgspec.json.encode(value, enc_hook=str), indent=2).decode())


def print_lines(*lines: str) -> None:
    """Print lines as they are, without markup and without breaking them."""
    for line in lines:
        console.print(line, markup=False, soft_wrap=True)


def print_result(value: Any, as_json: bool, *lines: str) -> None:
    """Print a value as JSON, or the lines that describe it."""
    if as_json:
        print_json(value)
    else:
        print_lines(*lines)


def print_rows(
    rows: Sequence[Row],
    as_json: bool,
    *,
    empty: str,
    cells: Callable[[Row], Mapping[str, object]],
) -> None:
    """Print rows as JSON, or their cells by heading as a table; without rows, print the line `empty`.

    The table is for eighty columns; its first column, which people copy, is never wrapped.
    """
    if as_json or not rows:
        print_result(rows, as_json, empty)
        return
    lines = [cells(row) for row in rows]
    first, *others = lines[0]
    shown = Table(box=None, pad_edge=False, header_style="bold")
    shown.add_column(first, no_wrap=True)
    for heading in others:
        shown.add_column(heading, overflow="fold")
    for line in lines:
        shown.add_row(*map(_cell, line.values()))
    console.print(shown, markup=False)


def _cell(value: object) -> str:
    if isinstance(value, datetime):
        return moment(value)
    return "-" if value in {None, ""} else str(value)


def print_tree(tree: Tree) -> None:
    """Print a tree; its lines are broken at the width of a terminal, and stay whole where they are piped."""
    (console if console.is_terminal else _unbroken).print(tree)


def print_server(label: str) -> None:
    """Print on standard error which server or database a command uses."""
    errors.print(f"tocsin: {label}", style="dim", markup=False, soft_wrap=True)


def complain(message: str) -> None:
    """Print an error on standard error."""
    errors.print("[bold red]error:[/] ", end="")
    errors.print(message, markup=False, soft_wrap=True)


def fail(message: str, *, code: int = 1) -> NoReturn:
    """Print an error and exit."""
    complain(message)
    raise typer.Exit(code)


def plural(count: int, one: str, many: str) -> str:
    """Return a count with the word for it, such as `1 delivery` or `2 deliveries`."""
    return f"{count} {one if count == 1 else many}"


def moment(at: datetime | None) -> str:
    """Format a time to the second, in UTC."""
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%SZ") if at else "-"


def clock_time(at: datetime) -> str:
    """Format a time of day to the millisecond, in UTC."""
    return at.astimezone(UTC).strftime("%H:%M:%S.%f")[:-3]
