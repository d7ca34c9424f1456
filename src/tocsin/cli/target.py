"""The server that the command line names."""

import msgspec
import typer

from tocsin.cli.output import fail


class Target(msgspec.Struct, frozen=True):
    """The server that was asked for by options or variables."""

    url: str | None = None
    key: str | None = None

    def __repr__(self) -> str:
        """Hide the key."""
        return f"Target({self.url!r}, …)"


_target = Target()


def choose_server(url: str | None, key: str | None) -> None:
    """Remember the server that the options or variables of the command line name."""
    global _target  # noqa: PLW0603 - one command, one server
    _target = Target(url, key)


def chosen_server() -> Target:
    """Return the server that was remembered."""
    return _target


def refuse_server(context: typer.Context, command: str) -> None:
    """Fail if a server is given on the command line to a command that talks to none."""
    sources = {name: context.find_root().get_parameter_source(name) for name in ("server", "key")}
    given = [f"--{name}" for name, source in sources.items() if source and source.name == "COMMANDLINE"]
    if given:
        fail(
            f"`{command}` runs on this machine, with the settings of this folder, and talks to no server: "
            f"leave {' and '.join(given)} out.",
            code=2,
        )
