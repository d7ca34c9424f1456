"""The files of `deploy/` and what they must agree with."""

from pathlib import Path

from tocsin.cli.commands import app

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"


def commands() -> set[str]:
    """List the commands of `tocsin` that are not groups."""
    functions = (command.callback for command in app.registered_commands)
    return {function.__name__ for function in functions if function}
