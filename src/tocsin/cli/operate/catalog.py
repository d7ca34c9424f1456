"""`tocsin catalog`."""

from pathlib import Path
from typing import Annotated

import typer

from tocsin.catalog.check import Report
from tocsin.catalog.check import check as check_folder
from tocsin.cli.output import AsJson, complain, console, print_json, table
from tocsin.compose import catalog_folder
from tocsin.settings import load_settings

app = typer.Typer(help="The declared types of notifications.", no_args_is_help=True)


@app.command()
def check(
    folder: Annotated[
        Path | None, typer.Argument(help="A catalog's folder; the one in use if left out.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Find every fault of a catalog, with file and line."""
    chosen = folder or catalog_folder(load_settings())
    if not chosen.is_dir():
        complain(f"{chosen} is not a folder.")
        raise typer.Exit(2)
    report = check_folder(chosen)
    if as_json:
        print_json({"folder": str(chosen), **{name: getattr(report, name) for name in ("types", "faults")}})
    else:
        _print(chosen, report)
    if report.faults:
        raise typer.Exit(1)


def _print(folder: Path, report: Report) -> None:
    console.print(f"Catalog {folder}", soft_wrap=True)
    shown = table("type", "category", "channels", "versions", "locales")
    for kind in report.types:
        newest = kind.versions[0]
        locales = sorted({locale for found in newest.locales.values() for locale in found})
        shown.add_row(
            kind.name,
            kind.category,
            ", ".join(kind.channels),
            ", ".join(f"v{version.version}" for version in kind.versions),
            ", ".join(locales),
        )
    console.print(shown)
    for fault in report.faults:
        console.print(f"[red]{fault.field}[/]: ", end="")
        console.print(fault.message, markup=False, soft_wrap=True)
    count = len(report.faults)
    console.print("[green]No faults.[/]" if not count else f"[red]{count} fault{'s' * (count != 1)}.[/]")
