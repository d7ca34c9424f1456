"""Opens the stage of a demo and serves its page."""

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import msgspec
from granian.constants import Interfaces
from granian.rsgi import HTTPProtocol, Scope  # type: ignore[attr-defined]

from tocsin.api.server import serve_api
from tocsin.api.settings import HttpSettings
from tocsin.catalog.load import load_catalog, shipped_catalog
from tocsin.cli.demo.page.calls import Access, DemoCalls
from tocsin.cli.demo.page.dashboard import DashboardSessions
from tocsin.cli.demo.page.site import HOST, Site
from tocsin.cli.demo.page.snapshot import Snapshots
from tocsin.cli.demo.page.stage import Stage
from tocsin.cli.demo.page.steps import STEPS
from tocsin.cli.demo.page.tour import Tour
from tocsin.sandbox import Sandbox

_TOKEN_BYTES = 16


@asynccontextmanager
async def opened_stage(sandbox: Sandbox, access: Access) -> AsyncIterator[Stage]:
    """Connect a sandbox and an API."""
    calls = DemoCalls(access)
    try:
        yield Stage(sandbox, calls, load_catalog(shipped_catalog()))
    finally:
        await calls.aclose()


class PageListener(msgspec.Struct):
    """Listens for the page from the start of a demo, so that its port is taken; the site comes later."""

    port: int = 0
    site: Site | None = None

    async def __rsgi__(self, scope: Scope, protocol: HTTPProtocol) -> None:
        """Answer one request."""
        if self.site is None:
            protocol.response_str(503, [("content-type", "text/plain")], "The demo is starting.")
        else:
            await self.site.handle(scope, protocol)


@asynccontextmanager
async def listening_for_page(port: int) -> AsyncIterator[PageListener]:
    """Listen on a port of the loopback interface; raise PortTakenError if another process does."""
    listener, stop = PageListener(), asyncio.Event()
    ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    settings = HttpSettings(host=HOST, port=port)
    serving = asyncio.create_task(
        serve_api(listener, settings, stop, ready.set_result, interface=Interfaces.RSGI)
    )
    try:
        either: list[asyncio.Future[Any]] = [serving, ready]
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if ready.done():
            listener.port = urlsplit(ready.result()).port or 0
            yield listener
    finally:
        stop.set()
        await serving


@asynccontextmanager
async def served_page(listener: PageListener, stage: Stage, access: Access) -> AsyncIterator[str]:
    """Serve the page, and yield its address."""
    tour, sessions = Tour(stage, STEPS), DashboardSessions(access)
    listener.site = Site(
        port=listener.port,
        token=secrets.token_urlsafe(_TOKEN_BYTES),
        api_url=access.base_url,
        stage=stage,
        tour=tour,
        snapshots=Snapshots(stage),
        sessions=sessions,
    )
    try:
        yield listener.site.url
    finally:
        listener.site = None
        await tour.aclose()
        await sessions.aclose()
