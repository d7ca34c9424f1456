"""`tocsin catalog`."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from tocsin.catalog.check import Report, TypeReport
from tocsin.catalog.check import check as check_folder
from tocsin.cli.access import with_connection, with_pool
from tocsin.cli.output import AsJson, console, errors, fail, print_json, print_rows
from tocsin.compose import catalog_folder
from tocsin.engine.catalog_watch import problems
from tocsin.settings import Settings, load_settings
from tocsin.store import processes
from tocsin.store.pool import Pool
from tocsin.store.processes import ProcessRow

_POLL_SECONDS = 0.25

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


@app.command()
def status(as_json: AsJson = False) -> None:
    """List the processes that run with the fingerprint of the catalog each uses; exit 1 if they differ."""
    _print_status(with_connection(processes.alive), as_json=as_json)


@app.command()
def reload(
    wait: Annotated[float, typer.Option(min=0, max=600, help="How many seconds to wait for them.")] = 15.0,
    as_json: AsJson = False,
) -> None:
    """Have every process read its catalog again; one with faults keeps the catalog it has."""

    async def work(_: Settings, pool: Pool) -> list[ProcessRow] | None:
        asked_at = await processes.ask_reload(pool)
        deadline = asyncio.get_running_loop().time() + wait
        while asked_at is not None:
            alive = await processes.alive(pool)
            late = any(row.catalog_read_at < asked_at and row.started_at < asked_at for row in alive)
            if not late or asyncio.get_running_loop().time() > deadline:
                return alive
            await asyncio.sleep(_POLL_SECONDS)
        return None

    alive = with_pool(work)
    if alive is None:
        fail("No process runs that could reload its catalog.")
    _print_status(alive, as_json=as_json)


def _print_status(alive: list[ProcessRow], *, as_json: bool) -> None:
    print_rows(alive, as_json, empty="No process runs.", cells=_process_cells)
    if found := problems(alive):
        for detail in () if as_json else found.values():
            errors.print(detail, markup=False, soft_wrap=True)
        raise typer.Exit(1)


def _process_cells(row: ProcessRow) -> dict[str, object]:
    return {
        "process": f"{row.kind} {row.host}/{row.pid}",
        "catalog": row.catalog,
        "read": row.catalog_read_at,
        "seen": row.seen_at,
        "fault": row.catalog_fault,
    }


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
