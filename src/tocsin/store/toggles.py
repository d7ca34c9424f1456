"""Toggles: which are off, who switched them and why."""

from datetime import datetime

import msgspec

from tocsin.domain.toggles import LONGEST_LIST
from tocsin.store.pool import Connection
from tocsin.store.rows import fetch_all


class ToggleRow(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a toggle that was switched at least once."""

    name: str
    enabled: bool
    reason: str | None
    updated_by: str
    updated_at: datetime


class ToggleChange(msgspec.Struct, frozen=True, kw_only=True):
    """One change of a toggle; ids increase in the order of the changes."""

    id: int
    name: str
    was_enabled: bool
    enabled: bool
    reason: str | None
    changed_by: str
    changed_at: datetime


# Changes are serialized, so that each records the state before it. Reads are not blocked.
LOCK = "lock table toggles in share row exclusive mode"

CHANGE = """
with before as (
    select coalesce((select enabled from toggles where name = $1), true) as enabled
),
written as (
    insert into toggles (name, enabled, updated_by, updated_at)
    values ($1, $2, $4, $5)
    on conflict (name) do update
    set enabled = excluded.enabled,
        updated_by = excluded.updated_by,
        updated_at = excluded.updated_at
    returning name, enabled, updated_by, updated_at
),
recorded as (
    insert into toggle_changes (name, was_enabled, enabled, reason, changed_by, changed_at)
    select $1, before.enabled, $2, $3, $4, $5
    from before
    returning reason
)
select written.name, written.enabled, recorded.reason, written.updated_by, written.updated_at
from written, recorded, pg_notify(current_schema() || '_toggles', '')
"""

OFF = """
select name
from toggles
where not enabled
"""

LIST = """
select name, enabled, last.reason, updated_by, updated_at
from toggles
left join lateral (
    select reason
    from toggle_changes
    where toggle_changes.name = toggles.name
    order by id desc
    limit 1
) as last on true
order by enabled, name
limit $1
"""

HISTORY = """
select id, name, was_enabled, enabled, reason, changed_by, changed_at
from toggle_changes
where id < $1 and ($3::text is null or name = $3)
order by id desc
limit $2
"""

LAST = (1 << 63) - 1


async def change(
    connection: Connection, name: str, *, enabled: bool, reason: str | None, by: str, now: datetime
) -> ToggleRow:
    """Switch a toggle, record who did it, and notify every process."""
    async with connection.transaction():
        await connection.execute(LOCK)
        return ToggleRow(**await connection.fetchrow(CHANGE, name, enabled, reason, by, now))


async def off(connection: Connection) -> frozenset[str]:
    """List the toggles that are off; every other is on."""
    return frozenset(row["name"] for row in await connection.fetch(OFF))


async def list_all(connection: Connection) -> list[ToggleRow]:
    """List the toggles that were ever switched, those that are off first."""
    return await fetch_all(connection, ToggleRow, LIST, LONGEST_LIST)


async def history(
    connection: Connection, name: str | None = None, *, before: int = LAST, limit: int = LONGEST_LIST
) -> list[ToggleChange]:
    """List the changes of one toggle or of all, newest first."""
    return await fetch_all(connection, ToggleChange, HISTORY, before, limit, name)
