"""Checks whether an outbox can be relayed."""

from collections.abc import Iterator

import msgspec

from tocsin.domain.faults import Fault
from tocsin.ingress.outbox.install import function_state, name_fault
from tocsin.ingress.outbox.settings import OutboxSettings
from tocsin.ingress.outbox.table import OutboxUnfitError, inspect, quoted
from tocsin.store.pool import OLDEST_SERVER, Connection

MAY = """
select
    has_table_privilege($1::regclass, 'select') as may_select,
    has_table_privilege($1::regclass, 'update') as may_update,
    has_table_privilege($1::regclass, 'delete') as may_delete
"""

# Whether a partial index covers the waiting rows; it stays small however many were published.
HAS_WAITING_INDEX = """
select exists (
    select
    from pg_index
    where indrelid = $1::regclass and pg_get_expr(indpred, indrelid) ~* 'is null'
        and pg_get_expr(indpred, indrelid) ~ $2
)
"""


class Findings(msgspec.Struct, frozen=True, kw_only=True):
    """Faults that keep an outbox from working, and hints about what makes it slow."""

    faults: list[Fault]
    hints: list[str]


async def check(connection: Connection, settings: OutboxSettings) -> Findings:
    """Check the server, the table, the rights of the role and the function."""
    faults = []
    version = await connection.fetchval("select current_setting('server_version_num')::integer")
    if version < OLDEST_SERVER:
        message = f"is PostgreSQL {version // 10_000}; the outbox needs {OLDEST_SERVER // 10_000} or newer"
        faults.append(Fault(field="server", code="too_old", message=message))
    try:
        table = await inspect(connection, settings)
    except OutboxUnfitError as error:
        return Findings(faults=[*faults, *error.faults], hints=[])
    may = await connection.fetchrow(MAY, table.name)
    faults += _missing_rights(settings, dict(may))
    hints = []
    if not await connection.fetchval(HAS_WAITING_INDEX, table.name, f"\\y{settings.columns.published_at}\\y"):
        column, order = quoted(settings.columns.published_at), quoted(settings.columns.id)
        hints.append(
            "No index covers the waiting rows, so each poll reads the whole table: "
            f"create index concurrently on {table.name} ({order}) where {column} is null"
        )
    if settings.envelope == "intent" and name_fault(settings.schema, settings.table) is None:
        state = await function_state(connection, settings.schema, settings.table)
        if state != "current":
            hints.append(f"The function tocsin_publish is {state}; `tocsin outbox install` updates it")
    return Findings(faults=faults, hints=hints)


def _missing_rights(settings: OutboxSettings, may: dict[str, bool]) -> Iterator[Fault]:
    needed = ["select", "update", *(["delete"] if settings.kept_days else [])]
    for right in needed:
        if not may[f"may_{right}"]:
            message = f"the role may not {right}: grant {right} on {settings.schema}.{settings.table} to it"
            yield Fault(field="table", code="forbidden", message=message)
