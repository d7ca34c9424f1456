"""Putting the outbox into an application's database."""

import re
from importlib.resources import files

from tocsin.domain.errors import TocsinError
from tocsin.store.pool import Connection

SCHEMA = "public"
TABLE = "tocsin_outbox"
FUNCTION = "tocsin_publish"
OLDEST_SERVER = 150_000
LONGEST_CHANNEL = 63

_PLAIN = re.compile(r"[a-z_][a-z0-9_]{0,49}")

# The name of the schema comes from the caller's session, as everything else about it does.
SOURCE_OF = """
select prosrc
from pg_proc
where oid = to_regprocedure($1)
"""


class OutboxNameError(TocsinError):
    """The outbox cannot be called that."""


def channel(schema: str, table: str) -> str | None:
    """Name what an outbox is announced on; a table with a very long name is not announced."""
    name = f"{schema}.{table}"
    return name if len(name.encode()) <= LONGEST_CHANNEL else None


def name_fault(schema: str, table: str) -> str | None:
    """Say why an outbox cannot be installed under a name, if it cannot."""
    for what, name in (("schema", schema), ("table", table)):
        if not _PLAIN.fullmatch(name):
            return (
                f"The {what} {name!r} must be lower-case letters, digits and underscores, at most 50, "
                "not starting with a digit."
            )
    if channel(schema, table) is None:
        return f"{schema}.{table} is too long: the two names may have {LONGEST_CHANNEL - 1} letters together."
    return None


def install_sql(schema: str = SCHEMA, table: str = TABLE) -> str:
    """Write the SQL that installs an outbox."""
    if message := name_fault(schema, table):
        raise OutboxNameError(message)
    written = files(__package__).joinpath("outbox.sql").read_text(encoding="utf-8")
    return written.replace(TABLE, table).replace(f"{SCHEMA}.", f"{schema}.")


async def install(connection: Connection, schema: str, table: str) -> None:
    """Create what is missing, all or nothing, and bring the function up to date."""
    # Several statements in one message are one transaction.
    await connection.execute(install_sql(schema, table))


async def function_state(connection: Connection, schema: str, table: str) -> str:
    """Tell whether the function is `current`, `outdated` or `missing`."""
    source = await connection.fetchval(SOURCE_OF, f'"{schema}".{FUNCTION}(jsonb,text,text)')
    if source is None:
        return "missing"
    return "current" if source in install_sql(schema, table) else "outdated"
