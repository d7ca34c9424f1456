"""What the command line shows: text for people, JSON for programs."""

from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.table import Table

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]

console = Console(highlight=False, emoji=False)
errors = Console(stderr=True, highlight=False, emoji=False)


def print_json(value: Any) -> None:
    """Print a value as JSON, indented."""
    typer.echo(msgspec.json.format(msgspec.json.encode(value, enc_hook=str), indent=2).decode())


def complain(message: str) -> None:
    """Say what went wrong on standard error."""
    errors.print("[bold red]error:[/] ", end="")
    errors.print(message, markup=False, soft_wrap=True)


def table(*columns: str) -> Table:
    """Start a table of eighty columns; its first column holds what people copy, so it is never broken."""
    first, *others = columns
    started = Table(box=None, pad_edge=False, header_style="bold")
    started.add_column(first, no_wrap=True)
    for column in others:
        started.add_column(column, overflow="fold")
    return started


def moment(at: datetime | None) -> str:
    """Write a time down to the second, in UTC."""
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%SZ") if at else "-"


def clock_time(at: datetime) -> str:
    """Write a time of day down to the millisecond, in UTC."""
    return at.astimezone(UTC).strftime("%H:%M:%S.%f")[:-3]
