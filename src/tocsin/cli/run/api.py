"""The process of `tocsin api`."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

import msgspec
import structlog
from litestar import Litestar
from litestar.types import ASGIApp

from tocsin.api.server import serve_api
from tocsin.api.settings import HttpSettings
from tocsin.api.starting import StartingApp
from tocsin.cli.run.connections import warn_of_connections
from tocsin.cli.run.metrics import exported_metrics
from tocsin.cli.run.observed import exported_traces
from tocsin.cli.run.process import prepared_settings, run_until_stopped, when_available
from tocsin.cli.run.serve import running_database
from tocsin.compose.api import open_api
from tocsin.domain.errors import DatabaseUnavailableError
from tocsin.gc_tuning import tune_gc
from tocsin.settings.tree import Settings

_log = structlog.stdlib.get_logger(__name__)


def api(*, tied: bool) -> None:
    """Run the HTTP API alone."""
    settings = prepared_settings()
    url = running_database(settings)
    run_until_stopped(lambda stop: _run_api(settings, url, stop, tied=tied), tied=tied)


async def _run_api(settings: Settings, url: str, stop: asyncio.Event, *, tied: bool) -> None:
    async with exported_metrics(settings, url, tied=tied), exported_traces(), AsyncExitStack() as exits:
        served: list[Litestar] = []

        async def opened() -> Litestar:
            app = await exits.enter_async_context(open_api(settings, url))
            if not tied:
                await warn_of_connections(settings, url, ["api"])
            served.append(app)
            tune_gc()
            return app

        async def drain() -> None:
            """End live sessions; the rest of the time is for other requests."""
            for each in served:
                if (pages := each.state.dashboard_app or each).state.get("dashboard_live") is not None:
                    pages.state.dashboard_live.close()
                await each.state.live.drain(settings.http.drain_seconds / 2)

        app, dashboard = await _apps(opened, exits, stop, tied=tied)
        api = serve_api(
            app,
            settings.http,
            stop,
            lambda at: _log.info("api started", address=at),
            websockets=settings.gateway.websockets,
            on_stop=drain,
        )
        if (http := _dashboard_address(settings)) is None:
            await api
        else:
            started = partial(_log.info, "dashboard started")
            beside = serve_api(dashboard, http, stop, lambda at: started(address=at), section="dashboard")
            await _serve_both(stop, api, beside)


async def _apps(
    opened: Callable[[], Awaitable[Litestar]], exits: AsyncExitStack, stop: asyncio.Event, *, tied: bool
) -> tuple[ASGIApp, ASGIApp]:
    """Return the apps of the API and of a dashboard with a port of its own."""
    try:
        app = await opened()
    except DatabaseUnavailableError:
        # At the first start somebody looks; a process that is restarted answers meanwhile.
        if not tied:
            raise
    else:
        return app, app.state.dashboard_app
    opening = asyncio.create_task(when_available(opened, stop))

    async def dashboard_app() -> Litestar | None:
        found = await opening
        return None if found is None else found.state.dashboard_app

    starting = StartingApp(), StartingApp()
    for each, wanted in zip(starting, (opening, dashboard_app()), strict=True):
        waiting = asyncio.create_task(each.wait_for(wanted))
        waiting.add_done_callback(lambda task: stop.set() if task.exception() else None)
        exits.push_async_callback(_result, waiting)
    return starting


async def _result(waiting: asyncio.Task[None]) -> None:
    await waiting


def _dashboard_address(settings: Settings) -> HttpSettings | None:
    """Return where the dashboard listens, if it has a port of its own."""
    dashboard = settings.dashboard
    if not dashboard.enabled or dashboard.port is None:
        return None
    return msgspec.structs.replace(
        settings.http, host=dashboard.host or settings.http.host, port=dashboard.port
    )


async def _serve_both(stop: asyncio.Event, *servers: Coroutine[Any, Any, None]) -> None:
    """Serve until `stop` is set; if one server ends, the others are stopped too, and its error is raised."""
    tasks = [asyncio.create_task(server) for server in servers]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    stop.set()
    await asyncio.wait(tasks)
    for task in tasks:
        task.result()
