"""`tocsin catalog check`, `status` and `reload`, and the group of all its commands."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tocsin.cli.access import over_http, with_connection
from tocsin.cli.catalog.new import new
from tocsin.cli.catalog.preview import preview
from tocsin.cli.output import AsJson, console, errors, fail, print_json, print_rows
from tocsin.cli.target import refuse_server

if TYPE_CHECKING:
    from tocsin.catalog.check import Report, TypeReport
    from tocsin.store.processes import ProcessRow

_POLL_SECONDS = 0.25

app = typer.Typer(name="catalog", help="The declared types of notifications.", no_args_is_help=True)
app.command()(new)
app.command()(preview)


@app.command()
def check(
    context: typer.Context,
    folder: Annotated[
        Path | None, typer.Argument(help="A catalog's folder; the one in use if left out.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Find every fault of a catalog, with file and line."""
    from tocsin.catalog.check import check as check_folder
    from tocsin.compose.catalog import catalog_folder
    from tocsin.settings.load import load_settings

    refuse_server(context, "tocsin catalog check")
    chosen = folder or catalog_folder(load_settings())
    if not chosen.is_dir():
        fail(f"{chosen} is not a folder.", code=2)
    report = check_folder(chosen)
    if as_json:
        found = {"types": report.types, "faults": report.faults, "warnings": report.warnings}
        print_json({"folder": str(chosen), **found})
    else:
        _print(chosen, report)
    if report.faults:
        raise typer.Exit(1)


@app.command()
def status(as_json: AsJson = False) -> None:
    """List the processes that run with the fingerprint of the catalog each uses; exit 1 if they differ."""
    _print_status(_alive(), as_json=as_json)


@app.command()
def reload(
    wait: Annotated[float, typer.Option(min=0, max=600, help="How many seconds to wait for them.")] = 15.0,
    as_json: AsJson = False,
) -> None:
    """Have every process read its catalog again; one with faults keeps the catalog it has."""
    if remote := over_http():
        from tocsin.api.bodies import ReloadRequest

        asked_at = remote.call(ReloadRequest, "POST", "admin", "catalog", "reload").asked_at
    else:
        from tocsin.store.processes import ask_reload

        asked_at = with_connection(ask_reload)
    if asked_at is None:
        fail("No process runs that could reload its catalog.")
    deadline = time.monotonic() + wait
    alive = _alive()
    while late := any(max(row.catalog_read_at, row.started_at) < asked_at for row in alive):
        if time.monotonic() > deadline:
            break
        time.sleep(_POLL_SECONDS)
        alive = _alive()
    _print_status(alive, as_json=as_json)
    if late:
        fail(f"Not every process has read its catalog within {wait:g} s.")


def _alive() -> list["ProcessRow"]:
    if remote := over_http():
        from tocsin.api.bodies import CatalogStatus

        return remote.call(CatalogStatus, "GET", "admin", "catalog").processes
    from tocsin.store.processes import alive

    return with_connection(alive)


def _print_status(alive: list["ProcessRow"], *, as_json: bool) -> None:
    from tocsin.engine.catalog_watch import problems

    print_rows(alive, as_json, empty="No process runs.", cells=_process_cells)
    if found := problems(alive):
        for detail in () if as_json else found.values():
            errors.print(detail, markup=False, soft_wrap=True)
        raise typer.Exit(1)


def _process_cells(row: "ProcessRow") -> dict[str, object]:
    return {
        "process": f"{row.kind} {row.host}/{row.pid}",
        "catalog": row.catalog,
        "read": row.catalog_read_at,
        "seen": row.seen_at,
        "fault": row.catalog_fault,
    }


def _print(folder: Path, report: "Report") -> None:
    console.print(f"Catalog {folder}", soft_wrap=True)
    print_rows(
        report.types,
        as_json=False,
        empty="No types.",
        cells=_cells,
    )
    for colour, faults in (("yellow", report.warnings), ("red", report.faults)):
        for fault in faults:
            console.print(f"[{colour}]{fault.field}[/]: ", end="")
            console.print(fault.message, markup=False, soft_wrap=True)
    count = len(report.faults)
    console.print("[green]No faults.[/]" if not count else f"[red]{count} fault{'s' * (count != 1)}.[/]")


def _cells(declared: "TypeReport") -> dict[str, object]:
    locales = sorted({locale for found in declared.versions[0].locales.values() for locale in found})
    return {
        "type": declared.name,
        "category": declared.category,
        "channels": _channels(declared),
        "versions": ", ".join(f"v{version.version}" for version in declared.versions),
        "locales": ", ".join(locales),
    }


def _channels(declared: "TypeReport") -> str:
    if declared.audiences is None:
        return ", ".join(declared.channels)
    return "; ".join(f"{kind}: {', '.join(channels)}" for kind, channels in declared.audiences.items())
