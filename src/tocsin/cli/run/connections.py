"""Whether the server allows as many connections as the processes may open."""

import os
import socket
from collections.abc import Sequence

import psutil
import structlog

from tocsin.domain.errors import DatabaseUnavailableError
from tocsin.settings.tree import Settings
from tocsin.store.health.connection_limit import allowed_connections
from tocsin.store.pool import DATABASE_FAULTS, PoolSettings, connect, opened_connection
from tocsin.store.processes import ProcessRow, alive

_LISTENING = 2
"""Connections of a process that wait for what others notify."""
_SMALLEST = 2
_log = structlog.stdlib.get_logger(__name__)


async def warn_of_connections(settings: Settings, url: str, starting: Sequence[str]) -> None:
    """Warn if processes of these kinds, with those that run, may open more than the server allows.

    It keeps no process from starting: that none is left for this question may pass before one is needed.
    """
    timeout = settings.pool.command_timeout
    opening = connect(url, settings.schema, settings.pool, command_timeout=timeout)
    try:
        async with opened_connection(opening) as connection:
            allowed = await allowed_connections(connection)
            running = [row.kind for row in await alive(connection) if _is_other(row)]
    except (DatabaseUnavailableError, *DATABASE_FAULTS) as error:
        _log.warning("connections not counted", error=repr(error))
        return
    kinds = [*running, *starting]
    needed = sum(most_connections(kind, settings.pool) for kind in kinds)
    if needed > allowed:
        _log.warning(
            "connections may run out",
            needed=needed,
            allowed=allowed,
            starting=len(starting),
            running=len(running),
            detail=_advice(kinds, allowed, settings),
        )


def most_connections(kind: str, pool: PoolSettings) -> int:
    """Return how many connections a process may open; a worker has a second pool, to accept."""
    return (2 if kind == "worker" else 1) * pool.size + _LISTENING


def _is_other(row: ProcessRow) -> bool:
    """Return whether it is another process that may still run: one that was killed on this host does not."""
    return row.host != socket.gethostname() or (row.pid != os.getpid() and psutil.pid_exists(row.pid))


def _advice(kinds: Sequence[str], allowed: int, settings: Settings) -> str:
    """Return what to change; processes that run are taken to have the settings of this one."""
    pools = sum(2 if kind == "worker" else 1 for kind in kinds)
    fitting = (allowed - _LISTENING * len(kinds)) // pools
    smaller = (
        f"Set TOCSIN_POOL__SIZE={fitting} or less (it is {settings.pool.size})"
        if fitting >= _SMALLEST
        else "Run fewer processes"
    )
    larger = (
        "raise max_connections of Postgres"
        if settings.database_url
        else "use a Postgres of your own with a higher max_connections (TOCSIN_DATABASE_URL)"
    )
    return f"{smaller}, or {larger}."
