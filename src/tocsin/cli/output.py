"""What the command line prints: text for people, JSON for programs."""

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, NoReturn, TypeVar

import msgspec
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]

Row = TypeVar("Row")

console = Console(highlight=False, emoji=False)
errors = Console(stderr=True, highlight=False, emoji=False)
# A tree is cut at the width of its console, even with soft_wrap: lines that are piped get a wide one.
_unbroken = Console(highlight=False, emoji=False, width=10_000)


# All but line feed and tab; with them those that turn the direction of what follows.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def printable(text: str) -> str:
    """Replace characters that control a terminal: ids and texts are chosen by others."""
    return _CONTROL.sub("\ufffd", text)


def escape_json(text: bytes) -> str:
    """Escape the characters of a JSON text that control a terminal; its value stays the same."""
    return _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text.decode())


def print_json(value: Any) -> None:
    """Print a value as JSON, indented."""
    typer.echo(escape_json(msgspec.json.format(msgspec.json.encode(value, enc_hook=str), indent=2)))


def print_json_line(value: Any) -> None:
    """Print a value as a line of JSON."""
    typer.echo(escape_json(msgspec.json.encode(value, enc_hook=str)))


def print_lines(*lines: str) -> None:
    """Print lines as they are, without markup and without breaking them."""
    for line in lines:
        console.print(printable(line), markup=False, soft_wrap=True)


def print_entry(line: Text | str, *, hang: int = 4) -> None:
    """Print a line of a list: broken between words at the width of a terminal, and whole where it is piped.

    The lines that follow are indented by `hang`. Ids stay in one piece unless they are longer than a line.
    A terminal that leaves no room beside them breaks the lines itself.
    """
    text = Text(line) if isinstance(line, str) else line
    text.plain = printable(text.plain)
    if not console.is_terminal or console.width < 2 * hang:
        console.print(text, soft_wrap=True)
        return
    first, *others = text.wrap(console, console.width - hang, overflow="fold")
    console.print(first, soft_wrap=True)
    for other in others:
        other.pad_left(hang)
        console.print(other, soft_wrap=True)


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
    return "-" if value in {None, ""} else printable(str(value))


def print_tree(tree: Tree) -> None:
    """Print a tree; its lines are broken at the width of a terminal, and stay whole where they are piped."""
    _make_printable(tree)
    (console if console.is_terminal else _unbroken).print(tree)


def _make_printable(tree: Tree) -> None:
    label = tree.label
    if isinstance(label, Text):
        label.plain = printable(label.plain)
    elif isinstance(label, str):
        tree.label = printable(label)
    for child in tree.children:
        _make_printable(child)


def print_server(label: str) -> None:
    """Print on standard error which server or database a command uses."""
    errors.print(f"tocsin: {printable(label)}", style="dim", markup=False, soft_wrap=True)


def complain(message: str) -> None:
    """Print an error on standard error."""
    errors.print("[bold red]error:[/] ", end="")
    errors.print(printable(message), markup=False, soft_wrap=True)


def fail(message: str, *, code: int = 1) -> NoReturn:
    """Print an error and exit."""
    complain(message)
    raise typer.Exit(code)


def confirm(question: str) -> None:
    """Ask on standard error whether to go on; end the command unless the answer is yes."""
    try:
        is_wanted = typer.confirm(question, err=True)
    except typer.Abort:
        if sys.stdin.isatty():
            raise
        errors.print()
        fail("There was no answer, and nothing was changed; pass --yes to go on without the question.")
    if not is_wanted:
        raise typer.Abort


def plural(count: int, one: str, many: str, *, or_more: bool = False) -> str:
    """Return a count with the word for it, such as `1 delivery`, `2 deliveries` or `1,000+ deliveries`."""
    return f"{count:,}{'+' if or_more else ''} {one if count == 1 else many}"


def moment(at: datetime | None) -> str:
    """Format a time to the second, in UTC."""
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%SZ") if at else "-"


def clock_time(at: datetime) -> str:
    """Format a time of day to the millisecond, in UTC."""
    return at.astimezone(UTC).strftime("%H:%M:%S.%f")[:-3]
