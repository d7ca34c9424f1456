"""Installs the outbox in an application's database."""

from importlib.resources import files

from tocsin.domain.errors import TocsinError
from tocsin.ingress.outbox.settings import SCHEMA, TABLE
from tocsin.store.pool import Connection, schema_fault

FUNCTION = "tocsin_publish"
LONGEST_CHANNEL = 63

SOURCE_OF = """
select prosrc
from pg_proc
where oid = to_regprocedure($1)
"""


class OutboxNameError(TocsinError):
    """The outbox cannot have this name."""


def channel(schema: str, table: str) -> str | None:
    """Return the NOTIFY channel of an outbox; None if the name of the table is too long for one."""
    name = f"{schema}.{table}"
    return name if len(name.encode()) <= LONGEST_CHANNEL else None


def name_fault(schema: str, table: str) -> str | None:
    """Return why an outbox cannot be installed under a name, or None."""
    for what, name in (("schema", schema), ("table", table)):
        if fault := schema_fault(name):
            return f"The {what} {name!r} {fault}."
    if channel(schema, table) is None:
        return f"{schema}.{table} is too long: the two names may have {LONGEST_CHANNEL - 1} letters together."
    return None


def install_sql(schema: str = SCHEMA, table: str = TABLE) -> str:
    """Return the SQL that installs an outbox."""
    if message := name_fault(schema, table):
        raise OutboxNameError(message)
    written = files(__package__).joinpath("outbox.sql").read_text(encoding="utf-8")
    return written.replace(TABLE, table).replace(f"{SCHEMA}.", f"{schema}.")


async def install(connection: Connection, schema: str, table: str) -> None:
    """Create what is missing and update the function, in one transaction."""
    # Several statements in one message are one transaction.
    await connection.execute(install_sql(schema, table))


async def function_state(connection: Connection, schema: str, table: str) -> str:
    """Return whether the function is `current`, `outdated` or `missing`."""
    source = await connection.fetchval(SOURCE_OF, f'"{schema}".{FUNCTION}(jsonb,text,text)')
    if source is None:
        return "missing"
    return "current" if source in install_sql(schema, table) else "outdated"
