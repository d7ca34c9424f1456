"""`tocsin catalog`."""

from pathlib import Path
from typing import Annotated

import typer

from tocsin.catalog.check import Report, TypeReport
from tocsin.catalog.check import check as check_folder
from tocsin.cli.output import AsJson, console, fail, print_json, print_rows
from tocsin.compose import catalog_folder
from tocsin.settings import load_settings

app = typer.Typer(name="catalog", help="The declared types of notifications.", no_args_is_help=True)


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
        fail(f"{chosen} is not a folder.", code=2)
    report = check_folder(chosen)
    if as_json:
        print_json({"folder": str(chosen), "types": report.types, "faults": report.faults})
    else:
        _print(chosen, report)
    if report.faults:
        raise typer.Exit(1)


def _print(folder: Path, report: Report) -> None:
    console.print(f"Catalog {folder}", soft_wrap=True)
    print_rows(
        report.types,
        as_json=False,
        empty="No types.",
        cells=_cells,
    )
    for fault in report.faults:
        console.print(f"[red]{fault.field}[/]: ", end="")
        console.print(fault.message, markup=False, soft_wrap=True)
    count = len(report.faults)
    console.print("[green]No faults.[/]" if not count else f"[red]{count} fault{'s' * (count != 1)}.[/]")


def _cells(declared: TypeReport) -> dict[str, object]:
    locales = sorted({locale for found in declared.versions[0].locales.values() for locale in found})
    return {
        "type": declared.name,
        "category": declared.category,
        "channels": ", ".join(declared.channels),
        "versions": ", ".join(f"v{version.version}" for version in declared.versions),
        "locales": ", ".join(locales),
    }
