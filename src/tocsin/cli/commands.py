"""The command line: all commands."""

import sys
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from importlib import import_module
from itertools import islice
from typing import Annotated, Any, NamedTuple, cast

import typer
from typer.core import TyperCommand, TyperGroup

from tocsin.cli.output import complain
from tocsin.domain.errors import TocsinError


class CommandSource(NamedTuple):
    """The module of a command below `tocsin.cli`, and the line about it in the list of commands.

    The module has a function by the name of the command (`list_` for `list`), or a group, `app`.
    """

    module: str
    summary: str


COMMANDS = {
    "serve": CommandSource(
        "run.commands",
        "Run everything: database (unless one is set), API, workers, and a relay if it has sources.",
    ),
    "api": CommandSource("run.commands", "Run the HTTP API alone."),
    "worker": CommandSource("run.commands", "Run one worker alone."),
    "migrate": CommandSource("run.commands", "Bring the database schema up to date."),
    "relay": CommandSource(
        "run.commands", "Relay the outboxes, streams and queues of applications into Tocsin."
    ),
    "gateway": CommandSource(
        "run.commands",
        "Send client events from a Redis stream, and people's inboxes, to apps and browsers, live.",
    ),
    "mailer": CommandSource(
        "run.commands", "Send the mail that other services ask for by commands in a Redis stream."
    ),
    "archive": CommandSource("run.commands", "Write the messages of an SQS queue to files, on disk or S3."),
    "send": CommandSource(
        "notifications.send",
        "Hand in one notification; if it waits, for quiet hours for example, tell until when.",
    ),
    "show": CommandSource(
        "notifications.show", "Show a notification with its deliveries, their states and reasons."
    ),
    "explain": CommandSource(
        "notifications.explain", "Explain what would happen to a notification, and why; nothing is sent."
    ),
    "cancel": CommandSource(
        "notifications.cancel",
        "Cancel what has not been sent: of one notification, or of all that the options select.",
    ),
    "person": CommandSource(
        "inspect.person",
        "Show a person: devices, preferences, local time, limits used, and what they got and why not.",
    ),
    "queue": CommandSource(
        "inspect.queue", "Show what waits in each lane: how many, since when, and how fast it is sent."
    ),
    "scheduled": CommandSource(
        "inspect.queue", "Show what leaves when, by hour, type and time zone; hours are in UTC."
    ),
    "top": CommandSource(
        "inspect.top", "Show lanes, rates, outcomes and alarms live; with --json, each look is a line."
    ),
    "audit": CommandSource("operate.audit", "List who did what to which subject, newest first."),
    "prune": CommandSource(
        "operate.prune",
        "Delete what is past its retention now, at any hour; workers do it every hour by themselves.",
    ),
    "refused": CommandSource(
        "operate.refused", "List refused intents and why, newest first; --json has their content."
    ),
    "sandbox": CommandSource(
        "demo.sandbox", "Stand in for every provider: virtual devices, scripted faults, no account needed."
    ),
    "demo": CommandSource(
        "demo.demo", "Start a database, a sandbox, the API and a worker, and send a first notification."
    ),
    "list": CommandSource("notifications.search", "List notifications by what became of them, newest first."),
    "devices": CommandSource("operate.devices", "The devices of a person."),
    "keys": CommandSource("operate.keys", "API keys for producers and operators."),
    "catalog": CommandSource("catalog.processes", "The declared types of notifications."),
    "toggle": CommandSource("operate.toggle", "Switch types, channels and providers off and on."),
    "providers": CommandSource(
        "operate.providers", "The health of the providers in use; pause one, resume it, try it."
    ),
    "receipts": CommandSource(
        "inspect.receipts", "Show how many deliveries of each type arrived and were opened."
    ),
    "alarms": CommandSource("operate.alarms", "Faults that an operator has to act on."),
    "progress": CommandSource(
        "operate.progress", "The progress of periodic producers; run one now, or set its checkpoint."
    ),
    "sources": CommandSource(
        "inspect.sources", "Show how far behind the readers of outboxes, streams and queues are."
    ),
    "suppressions": CommandSource("operate.suppressions", "Addresses that are sent no mail."),
    "outbox": CommandSource(
        "operate.outbox",
        "The outbox in an application's own database: its transaction commits, its notification is sent.",
    ),
    "dead": CommandSource("operate.dead", "Dead letters: what failed for good, and why."),
    "segments": CommandSource("operate.segments", "Named lists of people, for `tocsin send --segment`."),
    "users": CommandSource("operate.users", "The data of a person: erase it, export it."),
    "functions": CommandSource("functions", "The functions on AWS that deliver what a topic holds."),
}


LOCAL = {
    *("serve", "api", "worker", "migrate", "relay", "gateway", "mailer", "sandbox", "demo", "outbox"),
    *("functions", "archive"),
}
"""The commands that run on this machine, with the settings of this folder, and talk to no server."""


class _Commands(Mapping[str, Any]):
    """The commands by name; the module of each is imported when it is used, for few need the whole server."""

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)

    def __getitem__(self, name: str) -> Any:
        module = import_module(f"tocsin.cli.{COMMANDS[name].module}")
        if hasattr(module, "app"):
            return typer.main.get_group(module.app)
        alone = typer.Typer(add_completion=False)
        alone.command(name)(getattr(module, name, None) or getattr(module, f"{name}_"))
        return typer.main.get_command(alone)


class _Group(TyperGroup):
    """A group whose commands are imported when they are used."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.commands = cast("MutableMapping[str, Any]", _Commands())

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - the group's own signature
        """List the names without importing the commands."""
        return list(self.commands)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help without importing the commands."""
        self.commands = {name: TyperCommand(name, help=source.summary) for name, source in COMMANDS.items()}
        super().format_help(ctx, formatter)


app = typer.Typer(
    name="tocsin",
    cls=_Group,
    help="Notification delivery that keeps its promises.\n\n"
    "Settings come from tocsin.toml in the current folder and from TOCSIN_* variables.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

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
    from tocsin.cli.target import choose_server, refuse_server

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
