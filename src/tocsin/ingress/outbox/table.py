"""An outbox table as found in the application's database: its columns, and connections to it."""

from collections.abc import Mapping

import asyncpg
import msgspec

from tocsin.domain.errors import DatabaseError, FaultsError
from tocsin.domain.faults import Fault
from tocsin.ingress.outbox.settings import OutboxSettings
from tocsin.store.pool import CONNECTING_FAILED, Connection, PoolSettings, checked_url, describe_failure

LARGEST_TEXT = 1_000_000

_INTEGERS = frozenset({"smallint", "integer", "bigint"})
_PAYLOADS = {"intent": "intent", "fisa": "payload"}
_OPTIONAL = {
    "type": "event_type",
    "aggregate": "aggregate",
    "aggregate_id": "aggregate_id",
    "created_at": "created_at",
}
_FIRST, _LAST = "0001-01-02", "9999-12-30"
_REQUIRED = ("id", "published_at", "failed_attempts", "next_retry_at", "last_error")

COLUMNS = """
select attname as name, format_type(atttypid, null) as type
from pg_attribute
where attrelid = to_regclass($1) and attnum > 0 and not attisdropped
"""


class OutboxUnfitError(FaultsError):
    """The table does not match the settings."""


class Table(msgspec.Struct, frozen=True):
    """An outbox table: its quoted name, and the SQL expressions that stand for its columns."""

    name: str
    expressions: Mapping[str, str]

    def sql(self, statement: str) -> str:
        """Write a statement for the columns of this table."""
        return statement.format_map(self.expressions)


class OutboxSession:
    """A connection to an outbox, kept until something fails and opened again when it is next used."""

    def __init__(self, settings: OutboxSettings, pool: PoolSettings) -> None:
        self._settings = settings
        self._pool = pool
        self._connection: asyncpg.Connection | None = None
        self._table: Table | None = None

    async def __aenter__(self) -> tuple[asyncpg.Connection, Table]:
        if self._connection is None or self._table is None:
            self.close()
            self._connection = await connect(self._settings.url, self._pool)
            self._table = await inspect(self._connection, self._settings)
        return self._connection, self._table

    async def __aexit__(self, error: type[BaseException] | None, *_: object) -> None:
        if error is not None:
            self.close()

    def close(self) -> None:
        """Drop the connection; a statement under way is rolled back."""
        if self._connection is not None:
            self._connection.terminate()
        self._connection = self._table = None


async def connect(url: str, settings: PoolSettings) -> asyncpg.Connection:
    """Connect to an application's database, or raise without the address, which may hold a password."""
    try:
        return await asyncpg.connect(
            checked_url(url),
            timeout=settings.connect_timeout,
            command_timeout=settings.command_timeout,
            server_settings={
                "application_name": "tocsin relay",
                "timezone": "UTC",
                "jit": "off",
                # Releases the locks of a relay whose machine is gone.
                "idle_in_transaction_session_timeout": "60s",
                # Waiting rows are few and found by their index, whatever the planner estimates.
                "enable_seqscan": "off",
            },
        )
    except CONNECTING_FAILED as error:
        raise DatabaseError(
            f"The application's database does not answer ({describe_failure(error)}). "
            "Check the url of the outbox, with special characters written as %XX, and that the server runs."
        ) from None


async def inspect(connection: Connection, settings: OutboxSettings) -> Table:
    """Find the columns of the table, or raise with everything that is missing."""
    name = f"{quoted(settings.schema)}.{quoted(settings.table)}"
    types = {row["name"]: row["type"] for row in await connection.fetch(COLUMNS, name)}
    columns, faults = _resolve(settings, types)
    if faults:
        raise OutboxUnfitError(f"The outbox {settings.schema}.{settings.table} cannot be used:", faults)
    # In order, a row that the application has locked must not be overtaken by those behind it.
    lock = "for update" if settings.in_order else "for update skip locked"
    return Table(name, _expressions(name, columns, types) | {"lock": lock})


def quoted(identifier: str) -> str:
    """Quote a name for SQL."""
    doubled = identifier.replace('"', '""')
    return f'"{doubled}"'


def _resolve(settings: OutboxSettings, types: Mapping[str, str]) -> tuple[dict[str, str], list[Fault]]:
    """Return the column of each role, and what is wrong; an optional column that is missing is left out."""
    if not types:
        message = "does not exist, or its schema may not be used; `tocsin outbox install` creates it"
        return {}, [Fault(field="table", code="missing", message=message)]
    given = settings.columns
    columns = {role: getattr(given, role) for role in _REQUIRED}
    columns["payload"] = given.payload or _PAYLOADS[settings.envelope]
    for role, usual in _OPTIONAL.items():
        column = getattr(given, role) or (usual if usual in types else None)
        if column is not None:
            columns[role] = column
    faults = [
        Fault(field=f"columns.{role}", code="missing", message=f"there is no column {column}")
        for role, column in columns.items()
        if column not in types
    ]
    if settings.order == "aggregate" and "aggregate_id" not in columns:
        message = "is needed to keep order by aggregate"
        faults.append(Fault(field="columns.aggregate_id", code="missing", message=message))
    if settings.in_order and not faults and not _has_order(columns, types):
        message = f"is needed to keep order: {columns['id']} is not an increasing number"
        faults.append(Fault(field="columns.created_at", code="missing", message=message))
    return columns, faults


def _has_order(columns: Mapping[str, str], types: Mapping[str, str]) -> bool:
    return "created_at" in columns or types[columns["id"]] in _INTEGERS


def _expressions(name: str, columns: Mapping[str, str], types: Mapping[str, str]) -> dict[str, str]:
    """Write the SQL expressions that the statements use; those of missing columns are null."""
    found = {role: quoted(column) for role, column in columns.items()}
    created_at, type_, aggregate_id = (found.get(role) for role in ("created_at", "type", "aggregate_id"))
    moment = _within(created_at) if created_at else "null"
    by_time = created_at and types[columns["id"]] not in _INTEGERS
    aggregate = f"coalesce({found['aggregate']}::text, '')" if "aggregate" in found else "''"
    return found | {
        "table": name,
        "cut": str(LARGEST_TEXT + 1),
        "order": f"{created_at}, {found['id']}" if by_time else found["id"],
        "order_time": f"coalesce({moment}, '{_LAST}')" if by_time else "null",
        "key": f"{aggregate} || chr(31) || {aggregate_id}::text" if aggregate_id else "null::text",
        "type_text": f"{type_}::text" if type_ else "null::text",
        "created": f"({moment})::timestamptz",
        "oldest": f"min(({moment})::timestamptz)",
    }


def _within(column: str) -> str:
    """Write the time of a column within the years that Python has: Postgres has earlier and infinite ones."""
    first, last = f"when {column} < '{_FIRST}' then '{_FIRST}'", f"when {column} > '{_LAST}' then '{_LAST}'"
    return f"case {first} {last} else {column} end"
