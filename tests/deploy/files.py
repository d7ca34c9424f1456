"""The files of `deploy/` and what they must agree with."""

from pathlib import Path

from tocsin.cli.commands import COMMANDS

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"


def commands() -> set[str]:
    """Return the names of the commands of `tocsin`."""
    return set(COMMANDS)
