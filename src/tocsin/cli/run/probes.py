"""The probes of a process without an API: liveness and readiness on a port of its own."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import structlog

from tocsin.api.settings import HttpSettings, ProbesSettings
from tocsin.catalog.catalog import Catalog
from tocsin.domain.errors import DatabaseError
from tocsin.settings import Settings
from tocsin.store.migrate import check_schema

if TYPE_CHECKING:
    from litestar.types import ASGIApp

LONGEST_CHECK_SECONDS = 3.0

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
    from tocsin.api.starting import ProbeApp  # noqa: PLC0415

    http = HttpSettings(host=settings.host, port=settings.port)
    async with served_beside(ProbeApp(fault, catalog), http, section="probes") as address:
        _log.info("probes started", address=address)
        yield


@asynccontextmanager
async def served_beside(app: "ASGIApp", http: HttpSettings, *, section: str) -> AsyncIterator[str]:
    """Serve an app beside the main work of a process; yield its address once it listens."""
    from tocsin.api.server import serve_api  # noqa: PLC0415 - as above

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
