"""The reference of commands, from the commands themselves."""

from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

import typer

from tocsin.cli.commands import app
from tools.docs.markdown import code, page, table

INTRO = (
    "`tocsin COMMAND --help` says the same. Commands that read or write the database read the same "
    "[settings](settings.md) as the server; give them the same `tocsin.toml` or variables. `--json` prints "
    "JSON for programs. A command ends with 0 when all went well, 1 when what was asked for cannot be had, "
    "and 2 when the call, the settings or the set-up have to be mended."
)


class Command(NamedTuple):
    """A command by its whole name."""

    name: str
    command: Any


def every_command() -> Iterator[Command]:
    """List the commands, those of groups with the group's name before them."""
    return _below("tocsin", typer.main.get_command(app))


def _below(name: str, command: Any) -> Iterator[Command]:
    commands = getattr(command, "commands", None)
    if commands is None:
        yield Command(name, command)
        return
    if command.invoke_without_command and command.params:
        yield Command(name, command)
    for part, inner in commands.items():
        yield from _below(f"{name} {part}", inner)


def options_of(command: Any) -> set[str]:
    """List every spelling of a command's options, including the global ones."""
    return {spelling for parameter in command.params for spelling in _spellings(parameter)} | {"--help", "-h"}


def cli_page() -> str:
    """Build the page."""
    return page("Commands", INTRO, *(_described(*entry) for entry in every_command()), contents=True)


def _described(name: str, command: Any) -> str:
    shown = [parameter for parameter in command.params if not getattr(parameter, "hidden", False)]
    arguments = [parameter for parameter in shown if parameter.param_type_name == "argument"]
    options = [parameter for parameter in shown if parameter.param_type_name == "option"]
    usage = " ".join([name, *map(_usage, arguments), *(["[OPTIONS]"] if options else [])])
    blocks = [f"## {name}", f"```\n{usage}\n```", str(command.help)]
    rows = [[code(_metavar(argument)), "", str(argument.help)] for argument in arguments]
    rows += [[code(", ".join(_spellings(option))), _default(option), str(option.help)] for option in options]
    if rows:
        blocks.append(table(["word", "unless given", "meaning"], rows))
    return "\n\n".join(blocks)


def _spellings(parameter: Any) -> list[str]:
    return [*parameter.opts, *parameter.secondary_opts] if parameter.param_type_name == "option" else []


def _metavar(argument: Any) -> str:
    return str(argument.metavar or argument.name).upper()


def _usage(argument: Any) -> str:
    return _metavar(argument) if argument.required else f"[{_metavar(argument)}]"


def _default(option: Any) -> str:
    default = option.default
    if default is None or isinstance(default, bool):
        return ""
    if isinstance(default, Enum):
        return code(default.value)
    return code(default if isinstance(default, Path | str) else f"{default:g}")
