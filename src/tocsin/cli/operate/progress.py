"""`tocsin progress`."""

from collections.abc import Iterator
from typing import Annotated, Any

import msgspec
import typer

from tocsin.cli.access import with_pool
from tocsin.cli.output import AsJson, complain, console, moment, print_json, table
from tocsin.engine.clock import utc_now
from tocsin.engine.periodic import progress as periodic_progress
from tocsin.engine.periodic.progress import ProgressRecord, UnknownProducerError, WrongCheckpointError
from tocsin.settings import Settings
from tocsin.store.pool import Pool

app = typer.Typer(
    help="How far periodic producers are; run one now, or set its checkpoint.", invoke_without_command=True
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="A producer that `tocsin progress` lists.")]


@app.callback()
def list_progress(context: typer.Context, as_json: AsJson = False) -> None:
    """List the periodic producers: state, last success, next run, what was accepted."""
    if context.invoked_subcommand is not None:
        return

    async def work(_: Settings, pool: Pool) -> list[ProgressRecord]:
        async with pool.acquire() as connection:
            return await periodic_progress.list_records(connection, utc_now())

    records = with_pool(work)
    if as_json:
        print_json(records)
        return
    if not records:
        console.print("No periodic producer is known yet: a worker makes them known when it starts.")
        return
    shown = table("producer", "state", "last success", "next run", "accepted")
    for record in records:
        shown.add_row(
            record.name,
            record.state,
            moment(record.last_success_at),
            "now" if record.run_requested else moment(record.next_run_at),
            str(record.accepted) if record.kind != "upkeep" else "-",
        )
    console.print(shown, markup=False)
    for line in (line for record in records for line in _remarks(record)):
        console.print(line, markup=False, soft_wrap=True)


@app.command()
def run(name: Name, as_json: AsJson = False) -> None:
    """Run a producer now; its schedule stays as it is."""

    async def work(_: Settings, pool: Pool) -> ProgressRecord:
        async with pool.acquire() as connection:
            return await periodic_progress.request_run(connection, name, utc_now())

    record = _told(work)
    if as_json:
        print_json(record)
        return
    console.print(f"A worker runs {name} within a second or so: tocsin progress", markup=False)
    for line in _remarks(record):
        console.print(line, markup=False, soft_wrap=True)


@app.command()
def rewind(
    name: Name,
    to: Annotated[str, typer.Option(metavar="VALUE", help="The checkpoint: text, or JSON.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: AsJson = False,
) -> None:
    """Set the checkpoint of a producer; what was accepted before stays accepted once."""
    if not yes:
        typer.confirm(f"Let {name} go on from {to}?", abort=True, err=True)

    async def work(_: Settings, pool: Pool) -> ProgressRecord:
        async with pool.acquire() as connection:
            return await periodic_progress.rewind_to_text(connection, name, to, utc_now())

    record = _told(work)
    if as_json:
        print_json(record)
    else:
        console.print(f"The next run of {name} goes on from {_written(record.checkpoint)}.", markup=False)


def _told(work: Any) -> ProgressRecord:
    """Do the work; what is wrong with the request is said without a traceback."""
    try:
        record: ProgressRecord = with_pool(work)
    except UnknownProducerError as error:
        complain(str(error))
        raise typer.Exit(1) from None
    except WrongCheckpointError as error:
        complain(f"--to {error}")
        raise typer.Exit(2) from None
    return record


def _written(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _remarks(record: ProgressRecord) -> Iterator[str]:
    if record.state == "unknown":
        yield f"{record.name}: no worker can run it; is it still in the settings, and does one run?"
    if record.state == "interrupted":
        yield f"{record.name}: its worker is gone; another one goes on with the run"
    if record.last_error:
        yield f"{record.name}: failed {record.failures} times in a row: {record.last_error}"
    if record.refused:
        yield f"{record.name}: {record.refused} rows were refused; GET /v1/admin/refused tells why"
    if record.note:
        yield f"{record.name}: {record.note}"
