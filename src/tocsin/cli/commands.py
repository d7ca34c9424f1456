"""The command line: all commands."""

import sys
from collections.abc import Sequence
from importlib.metadata import version
from itertools import islice
from typing import Annotated

import typer

from tocsin.cli.access import choose_server, refuse_server
from tocsin.cli.catalog import processes as catalog
from tocsin.cli.inspect import person, queue, top
from tocsin.cli.notifications import cancel, explain, search, send, show
from tocsin.cli.operate import (
    alarms,
    audit,
    dead,
    devices,
    keys,
    outbox,
    progress,
    providers,
    prune,
    refused,
    suppressions,
    toggle,
    users,
)
from tocsin.cli.output import complain
from tocsin.cli.run import demo, relay, sandbox, serve
from tocsin.domain.errors import TocsinError

app = typer.Typer(
    name="tocsin",
    help="Notification delivery that keeps its promises.\n\n"
    "Settings come from tocsin.toml in the current folder and from TOCSIN_* variables.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

PROCESSES = (serve.serve, serve.api, serve.worker, serve.migrate, relay.relay)
NOTIFICATIONS = (send.send, show.show, explain.explain, cancel.cancel)
INSPECTION = (person.person, queue.queue, queue.scheduled, top.top)
for command in (
    *PROCESSES,
    *NOTIFICATIONS,
    *INSPECTION,
    audit.audit,
    prune.prune,
    refused.refused,
    sandbox.sandbox,
    demo.demo,
):
    app.command()(command)
app.command("list")(search.list_)
LOCAL = {process.__name__ for process in PROCESSES} | {"sandbox", "demo", "outbox"}
"""The commands that run on this machine, with the settings of this folder, and talk to no server."""
for group in (devices, keys, catalog, toggle, providers, alarms, progress, suppressions, outbox, dead, users):
    app.add_typer(group.app)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tocsin {version('tocsin')}")
        raise typer.Exit


@app.callback()
def _options(
    context: typer.Context,
    server: Annotated[
        str | None,
        typer.Option(envvar="TOCSIN_SERVER", metavar="URL", help="Talk to this server over HTTP."),
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(envvar="TOCSIN_KEY", show_envvar=True, help="The API key for --server."),
    ] = None,
    _version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Read settings from tocsin.toml in the current folder and from TOCSIN_* variables."""
    choose_server(server, key)
    if context.invoked_subcommand in LOCAL:
        refuse_server(context, f"tocsin {context.invoked_subcommand}")


def _check_arguments(arguments: Sequence[str]) -> None:
    """Raise an error about an argument whose bytes are no text: the database cannot store it."""
    for argument in arguments:
        try:
            argument.encode()
        except UnicodeEncodeError:
            shown = argument[:80].encode(errors="replace").decode()
            raise TocsinError(f"The argument {shown!r} is not UTF-8 text.") from None


def run() -> None:
    """Run the command line; an error that an operator can fix is printed without a traceback."""
    try:
        _check_arguments(sys.argv[1:])
        app(_options_first(sys.argv[1:]))
    except TocsinError as error:
        complain(str(error))
        sys.exit(2)


def _options_first(arguments: list[str]) -> list[str]:
    """Move --server to the front, and with it --key, so that they may stand after the command too.

    `send` and `explain` have a --key of their own, the idempotency key: theirs stays where it is.
    """
    front: list[str] = []
    rest: list[str] = []
    wanted = {"--server"} if _command(arguments) in {"send", "explain"} else {"--server", "--key"}
    given = iter(arguments)
    for argument in given:
        if argument == "--":
            rest += [argument, *given]
        elif argument.partition("=")[0] in wanted:
            front += [argument] if "=" in argument else [argument, *islice(given, 1)]
        else:
            rest.append(argument)
    return front + rest


def _command(arguments: list[str]) -> str | None:
    """Return the command: the first argument that is neither an option nor the value of one."""
    given = iter(arguments)
    for argument in given:
        if argument in {"--server", "--key"}:
            next(given, None)
        elif not argument.startswith("-"):
            return argument
    return None
