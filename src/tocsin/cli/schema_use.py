"""Whose schema it is: a server and a mailer have other types, keys and lanes, and share no schema."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TypeVar

from tocsin.cli.run.connections import warn_of_connections
from tocsin.compose.database import checked_pool
from tocsin.domain.errors import DatabaseError, SchemaMissingError, SettingsError
from tocsin.domain.faults import Fault
from tocsin.settings.build import setting_name
from tocsin.settings.tree import Settings
from tocsin.store import processes
from tocsin.store.pool import Pool, first_connection
from tocsin.store.sources.stream_offsets import is_read, other_uses

MAILER = "mailer"

T = TypeVar("T")


@asynccontextmanager
async def mailer_pool(settings: Settings, url: str, provider: str) -> AsyncIterator[Pool]:
    """Open a pool for a mailer that sends by `provider`; raise SettingsError in the schema of a server."""
    try:
        async with checked_pool(settings, url) as pool:
            async with first_connection(pool) as connection:
                running = {f"a {each.kind}" for each in await processes.alive(connection)}
                uses = sorted(running & {"a worker", "a relay"})
                uses = uses or await other_uses(connection, MAILER, provider)
            if uses:
                own = f"the mailer needs its own: set TOCSIN_SCHEMA={MAILER} for it and for `tocsin migrate`"
                raise _taken(settings, "The mailer cannot start:", "a server", uses, own)
            yield pool
    except SchemaMissingError as error:
        if settings.schema != Settings().schema:
            raise
        raise DatabaseError(
            f"Schema {settings.schema} is not set up, and is the one of a server: the mailer needs its own. "
            f"Set TOCSIN_SCHEMA={MAILER} for it and for `tocsin migrate`, which has to run first."
        ) from error


async def check_server_schema(settings: Settings, url: str) -> None:
    """Raise SettingsError in the schema of a mailer."""
    async with checked_pool(settings, url) as pool, first_connection(pool) as connection:
        uses = [f"a {MAILER}"] if MAILER in {each.kind for each in await processes.alive(connection)} else []
        # A server may read a stream of its own under that name.
        if not uses and MAILER not in settings.streams and await is_read(connection, MAILER):
            uses = [f"stream {MAILER}"]
    if uses:
        own = "a server needs its own: set another TOCSIN_SCHEMA for it and for `tocsin migrate`"
        raise _taken(settings, "The server cannot start:", "a mailer", uses, own)


@asynccontextmanager
async def in_server_schema(
    opening: Callable[[], AbstractAsyncContextManager[T]],
    settings: Settings,
    url: str,
    *,
    alone: str | None = None,
) -> AsyncIterator[T]:
    """Open a process of a server, or raise SettingsError in the schema of a mailer.

    One that starts `alone`, as a process of this kind, warns if the server allows too few connections.
    """
    await check_server_schema(settings, url)
    if alone is not None:
        await warn_of_connections(settings, url, [alone])
    async with opening() as opened:
        yield opened


def _taken(settings: Settings, title: str, owner: str, uses: list[str], own: str) -> SettingsError:
    message = f"{settings.schema} is the schema of {owner}, with {', '.join(uses)}; {own}"
    fault = Fault(field=setting_name(("schema",)), code="contradiction", message=message)
    return SettingsError(title, [fault])
