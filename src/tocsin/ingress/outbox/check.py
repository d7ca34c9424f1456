"""Checks whether an outbox can be relayed."""

import msgspec

from tocsin.domain.faults import Fault
from tocsin.ingress.outbox.install import function_state, name_fault
from tocsin.ingress.outbox.settings import OutboxSettings
from tocsin.ingress.outbox.table import OutboxUnfitError, inspect, quoted
from tocsin.store.pool import OLDEST_SERVER, Connection

MISSING_RIGHTS = """
select given.name
from unnest($2::text[]) with ordinality as given (name, position)
where not has_table_privilege($1::regclass, given.name)
order by given.position
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
    needed = ["select", "update", *(["delete"] if settings.kept_days else [])]
    for (right,) in await connection.fetch(MISSING_RIGHTS, table.name, needed):
        message = f"the role may not {right}: grant {right} on {settings.schema}.{settings.table} to it"
        faults.append(Fault(field="table", code="forbidden", message=message))
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
