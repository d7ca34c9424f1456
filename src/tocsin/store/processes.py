"""The processes that run: when each was last seen, and the catalog that it uses."""

from datetime import datetime, timedelta
from uuid import UUID

import msgspec

from tocsin.store.pool import Connection, Pool
from tocsin.store.rows import fetch_all

ALIVE_FOR = timedelta(seconds=30)
"""A process that was not seen for longer has ended."""


class ProcessReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a process reports of itself: `catalog` is the fingerprint of the catalog in use.

    `catalog_fault` is why the files that are there now could not be loaded.
    """

    id: UUID
    kind: str
    host: str
    pid: int
    catalog: str
    catalog_fault: str | None = None


class ProcessRow(ProcessReport, frozen=True, kw_only=True):
    """A process as it was last seen."""

    started_at: datetime
    seen_at: datetime
    catalog_read_at: datetime


# Times are the database's. What was not seen for a day is deleted on the way.
REPORT = """
with ended as (
    delete from processes where seen_at < now() - interval '1 day'
)
insert into processes (id, kind, host, pid, catalog, catalog_fault)
values ($1, $2, $3, $4, $5, $6)
on conflict (id) do update
set catalog = excluded.catalog,
    catalog_fault = excluded.catalog_fault,
    catalog_read_at = coalesce(now() - $7::interval, processes.catalog_read_at),
    seen_at = now()
returning coalesce(reload_asked_at > catalog_read_at, false)
"""

ALIVE = """
select id, kind, host, pid, started_at, seen_at, catalog, catalog_fault, catalog_read_at
from processes
where seen_at > now() - $1::interval
order by kind, started_at, id
"""

ASK_RELOAD = """
update processes set reload_asked_at = now() where seen_at > now() - $1::interval returning now()
"""

FORGET = "delete from processes where id = $1"


async def report(
    connection: Connection | Pool, process: ProcessReport, *, read_ago: timedelta | None
) -> bool:
    """Write a report; return whether the catalog is to be read again.

    `read_ago` is how long ago it began to be read, if that was since the last report: what was asked for
    meanwhile may have come too late for it.
    """
    identity = (process.id, process.kind, process.host, process.pid)
    state = (process.catalog, process.catalog_fault, read_ago)
    return bool(await connection.fetchval(REPORT, *identity, *state))


async def alive(connection: Connection | Pool) -> list[ProcessRow]:
    """List the processes that run, by kind."""
    return await fetch_all(connection, ProcessRow, ALIVE, ALIVE_FOR)


async def ask_reload(connection: Connection | Pool) -> datetime | None:
    """Ask every process that runs to read its catalog again; return when, or None if none runs."""
    asked_at: datetime | None = await connection.fetchval(ASK_RELOAD, ALIVE_FOR)
    return asked_at


async def forget(connection: Connection | Pool, process_id: UUID) -> None:
    """Delete a process that ends."""
    await connection.execute(FORGET, process_id)
