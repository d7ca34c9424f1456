"""The command line as an operator meets it: every command is a process of its own.

Starting Python and importing the server takes a second; each command is therefore forked from a process
that has done so already.
"""

import multiprocessing
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from tocsin.cli.commands import COMMANDS

LONGEST_COMMAND = 60

_starting = multiprocessing.get_context("forkserver")
_starting.set_forkserver_preload(
    # The first command that is parsed would import Typer's adapters, and with them Pydantic.
    ["pytest", "typer._adapters", *(f"tocsin.cli.{source.module}" for source in COMMANDS.values())]
)


class Ran(NamedTuple):
    """How a command ended and what it said; `server` is its line about the server it talked to."""

    code: int | None
    out: str
    err: str
    server: str = ""

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.out)

    @property
    def said(self) -> str:
        """Everything it said, without the line breaks that the width of the screen asked for."""
        return " ".join((self.out + self.err).split())


def run(arguments: Sequence[str], environment: Mapping[str, str], folder: Path) -> Ran:
    """Run `tocsin` in a folder, with these variables and no other settings."""
    with tempfile.TemporaryDirectory() as spoken:
        out, err = Path(spoken, "out"), Path(spoken, "err")
        process = _starting.Process(
            target=_command, args=(list(arguments), dict(environment), folder, out, err)
        )
        process.start()
        process.join(LONGEST_COMMAND)
        if process.is_alive():
            process.kill()
            process.join()
        code = process.exitcode
        process.close()
        lines = err.read_text().splitlines(keepends=True)
        server = lines.pop(0) if lines and lines[0].startswith("tocsin: ") else ""
        return Ran(code, out.read_text(), "".join(lines), server)


def _command(arguments: list[str], environment: dict[str, str], folder: Path, out: Path, err: Path) -> None:
    for name in [name for name in os.environ if name.startswith("TOCSIN_")]:
        del os.environ[name]
    os.environ.update(environment)
    os.chdir(folder)
    sys.stdout = out.open("w")
    sys.stderr = err.open("w")
    sys.argv = ["tocsin", *arguments]
    from tocsin.cli import main

    main()
