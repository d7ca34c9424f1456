"""How a one-off command reaches the server, and in whose name."""

import getpass
import os
from collections.abc import Awaitable, Callable
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Concatenate, ParamSpec, TypeVar

import msgspec
import typer

from tocsin.cli.output import fail, print_server
from tocsin.cli.server import Database, find_server
from tocsin.cli.target import chosen_server
from tocsin.domain.toggles import LONGEST_NOTE, Note

if TYPE_CHECKING:
    from tocsin.cli.remote import Remote
    from tocsin.settings.tree import Settings
    from tocsin.store.pool import Connection, Pool

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


By = Annotated[str | None, typer.Option(help="Who does it; the system's user unless given.")]
Reason = Annotated[str, typer.Option(help="Why; the next person will want to know.")]
_NOT_CONNECTED = (ConnectionRefusedError, ConnectionResetError, FileNotFoundError, TimeoutError)
"""What is raised where no server listens any more, or its socket is gone."""


def over_http() -> "Remote | None":
    """Return the HTTP API of the server if the command is to use it."""
    found = _found()
    return None if isinstance(found, Database) else found


def with_pool(work: Callable[["Settings", "Pool"], Awaitable[Result]]) -> Result:
    """Run `work` on the database of the server; it is neither created nor migrated."""
    found = _found()
    if not isinstance(found, Database):
        fail(
            "This command does not work over HTTP yet. Run it on the server's machine, or with its "
            "TOCSIN_DATABASE_URL and without --server (TOCSIN_SERVER).",
            code=2,
        )

    import uvloop

    from tocsin.compose.database import checked_pool
    from tocsin.store.pool import AWAY, unreachable

    async def body() -> Result:
        async with checked_pool(found.settings, found.url) as pool:
            try:
                return await work(found.settings, pool)
            except AWAY as error:
                # Others may be of a file that the work writes, or of a pipe that nobody reads any more.
                if isinstance(error, OSError) and not isinstance(error, _NOT_CONNECTED):
                    raise
                raise unreachable(error) from error

    return uvloop.run(body())


@cache
def _found() -> "Remote | Database":
    """Find the server once, and print which one it is."""
    from tocsin.logs import LogSettings, configure_logs

    configure_logs(LogSettings(level="warning"))
    found = find_server(chosen_server())
    print_server(found.label)
    return found


def with_connection(
    work: Callable[Concatenate["Connection", Arguments], Awaitable[Result]],
    *args: Arguments.args,
    **kwargs: Arguments.kwargs,
) -> Result:
    """Call `work` with a connection to the database that the settings name, and with the arguments."""

    async def body(_: "Settings", pool: "Pool") -> Result:
        async with pool.acquire() as connection:
            return await work(connection, *args, **kwargs)

    return with_pool(body)


def at_database_time(work: Callable[["Connection", datetime], Awaitable[Result]]) -> Result:
    """Call `work` with a connection and the time of the database, which everything stored is compared by."""

    async def body(connection: "Connection") -> Result:
        return await work(connection, await database_time(connection))

    return with_connection(body)


def default_timezone() -> str | None:
    """Return the time zone of people whose own is unknown, by the settings that name the database."""
    found = _found()
    return found.settings.quiet_hours.default_timezone if isinstance(found, Database) else None


async def database_time(connection: "Connection") -> datetime:
    """Return the time by the clock of the database."""
    now: datetime = await connection.fetchval("select clock_timestamp()")
    return now


@cache
def server_time() -> datetime:
    """Return the time by the clock of the server, read once; that of this machine may differ."""
    if (remote := over_http()) is None:
        return with_connection(database_time)
    from tocsin.wire.filters import ServerTime

    if found := remote.find(ServerTime, "GET", "time"):
        return found.now
    from tocsin.engine.clock import utc_now

    # A server of an older version.
    return utc_now()


def operator(by: str | None) -> str:
    """Return who runs the command: as given by --by, or the system's user."""
    if by is not None and over_http():
        fail("--by cannot be given over HTTP: the API key says who it is.", code=2)
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
