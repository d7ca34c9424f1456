"""How a one-off command reaches the database, and in whose name."""

import getpass
import os
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Concatenate, ParamSpec, TypeVar

import msgspec
import typer
import uvloop

from tocsin.cli.output import fail
from tocsin.compose import checked_pool, database
from tocsin.domain.toggles import LONGEST_NOTE, Note
from tocsin.logs import LogSettings, configure_logs
from tocsin.settings import Settings, load_settings
from tocsin.store.pool import Connection, Pool

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

By = Annotated[str | None, typer.Option(help="Who does it; the system's user unless given.")]
Reason = Annotated[str, typer.Option(help="Why; the next person will want to know.")]


def with_pool(work: Callable[[Settings, Pool], Awaitable[Result]]) -> Result:
    """Run `work` on the database that the settings name."""
    settings = load_settings()
    configure_logs(LogSettings(level="warning"))

    async def body(url: str) -> Result:
        async with checked_pool(settings, url) as pool:
            return await work(settings, pool)

    with database(settings) as url:
        return uvloop.run(body(url))


def with_connection(
    work: Callable[Concatenate[Connection, Arguments], Awaitable[Result]],
    *args: Arguments.args,
    **kwargs: Arguments.kwargs,
) -> Result:
    """Call `work` with a connection to the database that the settings name, and with the arguments."""

    async def body(_: Settings, pool: Pool) -> Result:
        async with pool.acquire() as connection:
            return await work(connection, *args, **kwargs)

    return with_pool(body)


def operator(by: str | None) -> str:
    """Return who runs the command: as given by --by, or the system's user."""
    return checked_note("--by", system_user() if by is None else by)


def checked_note(option: str, text: str) -> str:
    """Return the text of an option without surrounding blanks, or fail if it cannot be stored as a note."""
    return checked(text, Note, f"{option} must be 1 to {LONGEST_NOTE} characters, without line breaks.")


def checked(text: str, type_: Any, message: str) -> str:
    """Return a text without surrounding blanks, or fail with the message if it is not of the type."""
    try:
        return str(msgspec.convert(text.strip(), type_))
    except msgspec.ValidationError:
        fail(message, code=2)


def system_user() -> str:
    """Return the name of the system's user."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        # A container may run under a user id that has no name.
        return f"uid {os.getuid()}"
