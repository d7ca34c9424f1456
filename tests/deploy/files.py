"""The files of `deploy/` and what they must agree with."""

from pathlib import Path

from tocsin.cli.commands import COMMANDS

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"


def commands() -> set[str]:
    """Return the names of the commands of `tocsin`."""
    return set(COMMANDS)


def variables(name: str) -> dict[str, str]:
    """Return the variables that a file of the environment sets."""
    lines = (DEPLOY / name).read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
