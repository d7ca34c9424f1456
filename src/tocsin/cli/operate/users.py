"""`tocsin users`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from tocsin.cli.access import By, checked, operator, over_http, with_pool
from tocsin.cli.output import AsJson, confirm, escape_json, fail, plural, print_lines, print_result
from tocsin.domain.intent import UserId

if TYPE_CHECKING:
    from tocsin.engine.retention.erase import Erasure
    from tocsin.settings.tree import Settings
    from tocsin.store.pool import Pool

app = typer.Typer(name="users", help="The data of a person: erase it, export it.", no_args_is_help=True)

Person = Annotated[str, typer.Argument(metavar="USER", help="The application's own user id.")]


@app.command()
def erase(
    user_id: Person,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    by: By = None,
    as_json: AsJson = False,
) -> None:
    """Erase a person's data and cancel what waits for them; anonymous counts stay."""
    from tocsin.engine.retention.erase import Eraser, Erasure

    wanted, who = _checked(user_id), operator(by)
    if not yes:
        confirm(f"Erase everything about user {wanted}? It cannot be undone")
    if remote := over_http():
        erased = remote.call(Erasure, "DELETE", "users", wanted)
    else:

        async def work(settings: "Settings", pool: "Pool") -> Erasure:
            from tocsin.compose.catalog import read_catalog
            from tocsin.compose.database import database_clock

            eraser = Eraser(pool, read_catalog(settings), await database_clock(pool))
            return await eraser.erase(wanted, who)

        erased = with_pool(work)
    print_result(erased, as_json, *_lines(wanted, erased))


@app.command()
def export(
    user_id: Person,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write to this file.")] = None,
    by: By = None,
) -> None:
    """Export everything that is stored about a person, as JSON."""
    wanted, who = _checked(user_id), operator(by)
    if remote := over_http():
        document = msgspec.json.encode(remote.call(dict[str, Any], "GET", "users", wanted, "export"))
    else:

        async def work(settings: "Settings", pool: "Pool") -> bytes:
            from tocsin.compose.catalog import read_catalog
            from tocsin.compose.database import database_clock
            from tocsin.engine.retention.erase import subject_of
            from tocsin.engine.retention.export import Exporter
            from tocsin.store import audit

            clock = await database_clock(pool)
            await audit.record(pool, actor=who, action="user.export", subject=subject_of(wanted))
            exporter = Exporter(pool, read_catalog(settings))
            return b"".join([part async for part in exporter.export(wanted, clock())])

        document = with_pool(work)
    text = msgspec.json.format(document, indent=2)
    if output is None:
        typer.echo(escape_json(text))
        return
    try:
        # What is in it concerns one person and whoever may read this file.
        output.touch(mode=0o600)
        output.write_bytes(text + b"\n")
    except OSError as error:
        fail(f"{output} cannot be written: {error.strerror}.", code=2)
    print_lines(f"Wrote {output}.")


def _checked(user_id: str) -> str:
    return checked(
        user_id, UserId, f"{user_id[:80]!r} is no user id: 1 to 128 characters, no control characters."
    )


def _lines(user_id: str, erased: "Erasure") -> list[str]:
    gone = (
        plural(erased.devices, "device", "devices"),
        plural(erased.payloads, "payload", "payloads"),
        plural(erased.refused_intents, "refused intent", "refused intents"),
    )
    anonymous = f"{plural(erased.deliveries, 'delivery', 'deliveries')} made anonymous"
    lines = [
        f"Erased user {user_id}: {', '.join(gone)}; {anonymous}, {erased.cancelled} cancelled.",
        f"The audit has it as user:sha256:{erased.user_hash}.",
    ]
    if erased.state == "unfinished":
        lines.append("Something is being sent to them: a worker finishes within a minute or so.")
    return lines
