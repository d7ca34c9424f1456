"""`tocsin progress`."""

from collections.abc import Awaitable, Callable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from tocsin.cli.access import at_database_time, operator, over_http
from tocsin.cli.inspect.queue import age
from tocsin.cli.output import AsJson, confirm, fail, plural, print_lines, print_result, print_rows

if TYPE_CHECKING:
    from tocsin.engine.periodic.progress import ProgressRecord
    from tocsin.store.pool import Connection

app = typer.Typer(
    name="progress",
    help="The progress of periodic producers; run one now, or set its checkpoint.",
    invoke_without_command=True,
)

LATE_SECONDS = 60.0
"""A run starts within a second or two of its time; from here on it is late."""

Name = Annotated[str, typer.Argument(metavar="NAME", help="A producer that `tocsin progress` lists.")]


@app.callback()
def list_progress(context: typer.Context, as_json: AsJson = False) -> None:
    """List the periodic producers: state, last success, next run, accepted intents."""
    if context.invoked_subcommand is not None:
        return
    if remote := over_http():
        from tocsin.api.bodies import ProgressList

        records = remote.call(ProgressList, "GET", "admin", "progress").producers
    else:
        from tocsin.engine.periodic.progress import list_records

        records = at_database_time(list_records)
    print_rows(
        records,
        as_json,
        empty="No periodic producer is known yet: a worker registers them when it starts.",
        cells=_cells,
    )
    if not as_json:
        print_lines(*(line for record in records for line in _remarks(record)))


@app.command()
def run(name: Name, as_json: AsJson = False) -> None:
    """Run a producer now; its schedule stays as it is."""
    from tocsin.engine.periodic import progress as periodic_progress

    record = (
        remote.call(periodic_progress.ProgressRecord, "POST", "admin", "progress", name, "run")
        if (remote := over_http())
        else _changed(lambda connection, now: periodic_progress.request_run(connection, name, now))
    )
    note = f"A worker runs {name} within a second or so: tocsin progress"
    print_result(record, as_json, note, *_remarks(record))


@app.command()
def rewind(
    name: Name,
    to: Annotated[str, typer.Option(metavar="VALUE", help="The checkpoint: text, or JSON.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: AsJson = False,
) -> None:
    """Set the checkpoint of a producer; what was accepted before is not accepted twice."""
    from tocsin.engine.periodic import progress as periodic_progress

    if not yes:
        confirm(f"Let {name} continue from {to}?")
    record = _changed(
        lambda connection, now: periodic_progress.rewind_to_text(
            connection, name, to, now, actor=operator(None)
        )
    )
    value = record.checkpoint
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    print_result(record, as_json, f"The next run of {name} continues from {text}.")


def _changed(change: Callable[["Connection", datetime], Awaitable["ProgressRecord"]]) -> "ProgressRecord":
    """Change a producer, or fail with what is wrong with the request."""
    from tocsin.engine.periodic.progress import UnknownProducerError, WrongCheckpointError

    try:
        return at_database_time(change)
    except UnknownProducerError as error:
        fail(str(error))
    except WrongCheckpointError as error:
        fail(f"--to {error}", code=2)


def _cells(record: "ProgressRecord") -> dict[str, object]:
    return {
        "producer": record.name,
        "state": record.state,
        "last success": record.last_success_at,
        "next run": "now" if record.run_requested else record.next_run_at,
        "accepted": record.accepted if record.kind != "upkeep" else None,
    }


def _remarks(record: "ProgressRecord") -> Iterator[str]:
    if record.state == "unknown":
        yield f"{record.name}: no worker can run it; is it still in the settings, and does one run?"
    if record.state == "interrupted":
        yield f"{record.name}: its worker died; another one continues the run"
    elif record.late_seconds > LATE_SECONDS and not record.run_requested:
        yield f"{record.name}: overdue for {age(record.late_seconds)}"
    if record.last_error:
        often = plural(record.failures, "time", "times")
        yield f"{record.name}: failed {often} in a row: {record.last_error}"
    if record.refused:
        refused = "1 row was" if record.refused == 1 else f"{record.refused} rows were"
        yield f"{record.name}: {refused} refused; GET /v1/admin/refused shows why"
    if record.note:
        yield f"{record.name}: {record.note}"
