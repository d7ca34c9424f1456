"""Connections to Postgres."""

import re
import time
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import Annotated, Any, TypeAlias
from urllib.parse import SplitResult, urlsplit

import asyncpg
import msgspec
from msgspec import Meta

from tocsin.domain.errors import DatabaseError, DatabaseUnavailableError
from tocsin.telemetry import metrics
from tocsin.telemetry.samples import before_read

OLDEST_SERVER = 150_000
DATABASE_FAULTS = (
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    # Raised by asyncpg for a statement on a connection that the server is closing.
    asyncpg.InternalClientError,
    OSError,
)
"""What any statement can raise because of the connection or the server; a timeout is an OSError."""
AWAY = (
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    # Shut down, started up, or a statement cancelled.
    asyncpg.OperatorInterventionError,
    asyncpg.TooManyConnectionsError,
    asyncpg.InternalClientError,
    # A timeout is one of these.
    OSError,
)
"""What a statement raises when the database does not answer at the moment."""
ROW_FAULTS = (
    asyncpg.DataError,
    asyncpg.IntegrityConstraintViolationError,
    asyncpg.ProgramLimitExceededError,
    asyncpg.RaiseError,
)
"""What a statement raises because of a row it was given: without that row it would not fail."""
CONNECTING_FAILED = (OSError, ValueError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError)
# The address, the role, the password or the name of the database is wrong.
OR_EMBEDDED = ", or leave it out to use the embedded one"
_REFUSED = (ValueError, asyncpg.InvalidAuthorizationSpecificationError, asyncpg.InvalidCatalogNameError)

# Paths, and names that may hold one; after any other name an @ may end a password that holds a question mark.
_OPTIONS_WITH_AT = {"host", "user", "dbname", "passfile", "sslcert", "sslkey", "sslrootcert", "sslcrl"}
_ESCAPED = "write special characters of the user name and the password as %XX, such as %2F for /"

REPLAN_SECONDS = 10.0
"""How long a connection keeps its plans: one made while a table was empty reads all of it once it is not."""

Pool: TypeAlias = asyncpg.Pool
_open_pools: list[Pool] = []
Connection: TypeAlias = asyncpg.Connection | asyncpg.pool.PoolConnectionProxy


# Statements have one good plan for all values: planning is done once, not per batch. Planned for its values,
# a settlement knows the states it looks for: where by the statistics nothing waits, it reads all that does.
_PLANNED_ONCE = {"plan_cache_mode": "force_generic_plan", "enable_seqscan": "off"}

# A worker looks up rows by key and nothing else. A cached plan made while a table was small would go on
# scanning it once it is large.
LOOKUPS_ONLY = _PLANNED_ONCE | {
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "enable_bitmapscan": "off",
}


class PoolSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The size and the timeouts of a connection pool."""

    size: Annotated[int, Meta(ge=2, le=500)] = 8
    connect_timeout: Annotated[float, Meta(gt=0, le=300)] = 10.0
    command_timeout: Annotated[float, Meta(gt=0, le=3_600)] = 30.0


def schema_fault(schema: str) -> str | None:
    """Return what is wrong with a schema name, or None."""
    if re.fullmatch(r"[a-z_][a-z0-9_]{0,49}", schema):
        return None
    return "must be lower-case letters, digits and underscores, at most 50, not starting with a digit"


def is_transient(error: BaseException) -> bool:
    """Return whether a statement failed because of the connection or the server, not of its values."""
    return isinstance(error, DATABASE_FAULTS) and not isinstance(error, ROW_FAULTS)


class UrlFaultError(ValueError):
    """A database URL that cannot be used; the text quotes nothing of it."""


def url_fault(url: str) -> str | None:
    """Return what is wrong with a database URL, without quoting it.

    One whose password holds a /, ? or # as it is would be read as another host, port and database, and
    errors about those would quote parts of the password.
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        return f"cannot be parsed; {_ESCAPED}"
    if parts.scheme not in {"postgresql", "postgres"}:
        return "must begin with postgresql://"
    if "@" in parts.path or parts.fragment or any(map(str.isspace, url)) or not _has_options(parts):
        return f"cannot be parsed; {_ESCAPED}"
    return None


def _has_options(parts: SplitResult) -> bool:
    """Return whether the query has options of Postgres alone, and not the rest of a password."""
    given = parts.query.split("&") if parts.query else []
    if any("=" not in option for option in given):
        return False
    with_at = {option.partition("=")[0] for option in given if "@" in option}
    return not with_at or ("@" in parts.netloc and bool(parts.path) and with_at <= _OPTIONS_WITH_AT)


def checked_url(url: str) -> str:
    """Return a database URL, or raise UrlFaultError."""
    if fault := url_fault(url):
        raise UrlFaultError(f"its URL {fault}")
    return url


def describe_failure(error: BaseException) -> str:
    """Return why a connection failed. A ValueError may quote a part of the URL, so only its type is told."""
    if isinstance(error, ValueError) and not isinstance(error, UrlFaultError):
        return type(error).__name__
    return f"{type(error).__name__}: {error}"


class _PooledConnection(asyncpg.Connection):  # type: ignore[misc]  # asyncpg has no types
    """A connection that plans its statements anew once its plans are old, and is not reset after each use.

    No statement of Tocsin changes its session, so a reset would be a round trip for nothing.
    """

    __slots__ = ("_planned_at",)

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._planned_at = time.monotonic()

    def get_reset_query(self) -> str:
        """Return nothing to execute when the connection goes back to its pool."""
        return ""

    async def drop_old_plans(self) -> None:
        """Have the next statements planned for the tables as they are now, if plans are old."""
        now = time.monotonic()
        if now - self._planned_at > REPLAN_SECONDS:
            await self.execute("discard plans")
            self._planned_at = now


async def _prepare(connection: Connection) -> None:
    await connection.drop_old_plans()


@asynccontextmanager
async def open_pool(
    url: str, schema: str, settings: PoolSettings, *, lookups_only: bool = False
) -> AsyncIterator[Pool]:
    """Open a pool whose connections see the schema's tables by their bare names."""
    server_settings = connection_settings(schema) | (LOOKUPS_ONLY if lookups_only else _PLANNED_ONCE)
    try:
        pool = await asyncpg.create_pool(
            checked_url(url),
            # With a minimum, the pool would log an error every second while the database is down.
            min_size=0,
            max_size=settings.size,
            timeout=settings.connect_timeout,
            command_timeout=settings.command_timeout,
            max_inactive_connection_lifetime=0,
            server_settings=server_settings,
            connection_class=_PooledConnection,
            setup=_prepare,
        )
    except CONNECTING_FAILED as error:
        raise unreachable(error) from error
    _open_pools.append(pool)
    try:
        yield pool
    finally:
        _open_pools.remove(pool)
        pool.terminate() if pool.is_closing() else await pool.close()


def _measure_pools() -> None:
    idle = sum(pool.get_idle_size() for pool in _open_pools)
    metrics.pool_connections.set(("idle",), idle)
    metrics.pool_connections.set(("used",), sum(pool.get_size() for pool in _open_pools) - idle)
    metrics.pool_size.set((), sum(pool.get_max_size() for pool in _open_pools))


before_read(_measure_pools)


def connection_settings(schema: str) -> dict[str, str]:
    """Return the server settings of every connection."""
    return {
        "application_name": "tocsin",
        "search_path": schema,
        "timezone": "UTC",
        # Every statement is short and prepared: compiling it costs more than it saves.
        "jit": "off",
        "idle_in_transaction_session_timeout": "60s",
    }


async def connect(
    url: str, schema: str, settings: PoolSettings, *, command_timeout: float | None = None
) -> asyncpg.Connection:
    """Open one connection outside a pool."""
    try:
        return await asyncpg.connect(
            checked_url(url),
            timeout=settings.connect_timeout,
            command_timeout=command_timeout,
            server_settings=connection_settings(schema),
        )
    except CONNECTING_FAILED as error:
        raise unreachable(error) from error


@asynccontextmanager
async def first_connection(pool: Pool) -> AsyncIterator[Connection]:
    """Acquire a connection at start; raise DatabaseUnavailableError if the database does not answer."""
    try:
        async with pool.acquire() as connection:
            yield connection
    except AWAY as error:
        raise unreachable(error) from error


@asynccontextmanager
async def opened_connection(opening: Awaitable[asyncpg.Connection]) -> AsyncIterator[asyncpg.Connection]:
    """Wait for a connection outside a pool and drop it at the end, whatever it does then."""
    connection = await opening
    try:
        yield connection
    finally:
        connection.terminate()


def unreachable(error: BaseException) -> DatabaseError:
    """Build the error for a failed connection, without the address, which may hold a password."""
    if isinstance(error, _REFUSED):
        return DatabaseError(
            f"The database cannot be used ({describe_failure(error)}). Check the role, the password and the "
            f"name of the database in TOCSIN_DATABASE_URL{OR_EMBEDDED}."
        )
    return DatabaseUnavailableError(
        f"The database does not answer ({describe_failure(error)}). "
        f"Check TOCSIN_DATABASE_URL and that the server runs{OR_EMBEDDED}."
    )
