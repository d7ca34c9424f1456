"""The probes of a process without an API: liveness and readiness on a port of its own."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import structlog
from litestar.types import ASGIApp

from tocsin.api.server import HttpSettings, serve_api
from tocsin.api.starting import ProbeApp
from tocsin.domain.errors import DatabaseError
from tocsin.settings import Settings
from tocsin.store.migrate import check_schema

LONGEST_CHECK_SECONDS = 3.0

_log = structlog.stdlib.get_logger(__name__)


@asynccontextmanager
async def answered_probes(settings: Settings, url: str) -> AsyncIterator[ProbeApp]:
    """Answer probes on the port that is set, if one is; the process is ready once it has a catalog."""

    async def fault() -> str | None:
        try:
            async with asyncio.timeout(LONGEST_CHECK_SECONDS):
                await check_schema(url, settings.schema, settings.pool)
        except TimeoutError:
            return "The database does not answer."
        except DatabaseError as error:
            return str(error)
        return None

    app = ProbeApp(fault)
    if settings.probes.port is None:
        yield app
        return
    http = HttpSettings(host=settings.probes.host, port=settings.probes.port)
    async with served_beside(app, http, section="probes") as address:
        _log.info("probes started", address=address)
        yield app


@asynccontextmanager
async def served_beside(app: ASGIApp, http: HttpSettings, *, section: str) -> AsyncIterator[str]:
    """Serve an app beside the main work of a process; yield its address once it listens."""
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
