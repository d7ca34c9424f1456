"""The probes of a process without an API: liveness and readiness on a port of its own."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import structlog

from tocsin.api.settings import HttpSettings, ProbesSettings
from tocsin.catalog.catalog import Catalog
from tocsin.domain.errors import DatabaseError
from tocsin.settings.tree import Settings
from tocsin.store.migrate import check_schema
from tocsin.store.pool import DATABASE_FAULTS, connect, opened_connection
from tocsin.store.processes import alive

if TYPE_CHECKING:
    from litestar.types import ASGIApp

LONGEST_CHECK_SECONDS = 3.0
LOOK_SECONDS = 0.2

_log = structlog.stdlib.get_logger(__name__)


class Readiness:
    """The catalog that a process works with, once it has started."""

    catalog: Catalog | None = None


@asynccontextmanager
async def answered_probes(settings: Settings, url: str) -> AsyncIterator[Readiness]:
    """Answer probes on the port that is set, if one is; the process is ready once it has a catalog."""
    readiness = Readiness()

    async def fault() -> str | None:
        try:
            async with asyncio.timeout(LONGEST_CHECK_SECONDS):
                await check_schema(url, settings.schema, settings.pool)
        except TimeoutError:
            return "The database does not answer."
        except DatabaseError as error:
            return str(error)
        return None

    async with probes_of(settings.probes, fault, lambda: readiness.catalog):
        yield readiness


@asynccontextmanager
async def probes_of(
    settings: ProbesSettings,
    fault: Callable[[], Awaitable[str | None]],
    catalog: Callable[[], Catalog | None] | None = None,
) -> AsyncIterator[None]:
    """Answer probes on the port that is set, if one is; the process is ready while no `fault` is found."""
    if settings.port is None:
        yield
        return
    # Without probes a worker does not need the web framework, which is slow to import.
    from tocsin.api.starting import ProbeApp

    http = HttpSettings(host=settings.host, port=settings.port, header_seconds=settings.header_seconds)
    async with served_beside(ProbeApp(fault, catalog), http, section="probes") as address:
        _log.info("probes started", address=address)
        yield


@asynccontextmanager
async def answered_tree_probes(
    settings: Settings, url: str, process_ids: Collection[int], count: int
) -> AsyncIterator[None]:
    """Answer probes for a process tree, if a port is set: it is ready once `count` processes have started.

    From then on nothing is checked for an answer.
    """
    started = asyncio.Event()

    async def fault() -> str | None:
        return None if started.is_set() else "The processes start."

    async def look() -> None:
        async with opened_connection(connect(url, settings.schema, settings.pool)) as connection:
            while not started.is_set():
                reported = {row.pid for row in await alive(connection) if row.host == socket.gethostname()}
                if len(process_ids) == count and reported.issuperset(process_ids):
                    started.set()
                    _log.info("process tree started", processes=count)
                await asyncio.sleep(LOOK_SECONDS)

    async def watch() -> None:
        while not started.is_set():
            try:
                await look()
            except (DatabaseError, *DATABASE_FAULTS):
                # Its processes wait for the database too.
                await asyncio.sleep(LOOK_SECONDS)

    watching = asyncio.create_task(watch())
    try:
        async with probes_of(settings.probes, fault):
            yield
    finally:
        watching.cancel()
        await asyncio.wait([watching])


@asynccontextmanager
async def served_beside(app: "ASGIApp", http: HttpSettings, *, section: str) -> AsyncIterator[str]:
    """Serve an app beside the main work of a process; yield its address once it listens."""
    from tocsin.api.server import serve_api

    stop = asyncio.Event()
    address: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    serving = asyncio.create_task(serve_api(app, http, stop, address.set_result, section=section))
    try:
        either: list[asyncio.Future[Any]] = [serving, address]
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if serving.done():
            await serving
        yield await address
    finally:
        stop.set()
        address.cancel()
        if not serving.done():
            await serving
