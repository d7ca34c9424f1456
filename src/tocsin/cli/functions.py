"""`tocsin functions`."""

import re
from pathlib import Path
from typing import Annotated

import typer

from tocsin.aws.packaging.archive import Function, Sources, write_package
from tocsin.aws.packaging.target import Platform, Target, this_machine
from tocsin.cli.output import AsJson, fail, print_result

app = typer.Typer(
    name="functions",
    help="The functions on AWS that deliver what a topic holds.",
    no_args_is_help=True,
)

OLDEST_PYTHON = (3, 11)
_PYTHON = re.compile(r"(\d{1,2})\.(\d{1,3})")


@app.callback()
def functions() -> None:
    """Keep `package` a command of its own."""


@app.command()
def package(
    output: Annotated[Path, typer.Option(help="The zip to write.", dir_okay=False)],
    function: Annotated[
        Function, typer.Option(help="For phones by SNS, or for browsers by the gateway.")
    ] = Function.MOBILE,
    platform: Annotated[
        Platform | None, typer.Option(help="The processor of the function; by default this machine's.")
    ] = None,
    python: Annotated[
        str | None, typer.Option(metavar="X.Y", help="Its Python; by default the one that runs this.")
    ] = None,
    database: Annotated[
        bool, typer.Option("--database", help="Add a driver: endpoints are read from Postgres.")
    ] = False,
    wheels: Annotated[
        Path | None, typer.Option(help="A folder with the wheels to use.", exists=True, file_okay=False)
    ] = None,
    download: Annotated[bool, typer.Option("--download", help="Fetch the wheels by pip.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write the zip of a function, from the packages that are installed here unless others are asked for."""
    if wheels is not None and download:
        fail("Give --wheels or --download, not both.", code=2)
    here = this_machine()
    target = Target(platform or here.platform, here.python if python is None else _version(python))
    made = write_package(
        function, output, target, Sources(wheels=wheels, download=download), database=database
    )
    print_result(
        made,
        as_json,
        f"{made.file}: {made.bytes:,} bytes, {made.files} files, for {target}",
        f"handler {made.handler}, with {', '.join(made.packages)}",
        f"sha256 {made.sha256}",
    )


def _version(text: str) -> tuple[int, int]:
    match = _PYTHON.fullmatch(text)
    version = (int(match[1]), int(match[2])) if match else (0, 0)
    if version < OLDEST_PYTHON:
        fail(
            f"--python {text[:20]!r} is not a version from {OLDEST_PYTHON[0]}.{OLDEST_PYTHON[1]} on.", code=2
        )
    return version
