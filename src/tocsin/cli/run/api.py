"""The process of `tocsin api`."""

import asyncio
from contextlib import AsyncExitStack

import structlog
from litestar import Litestar
from litestar.types import ASGIApp

from tocsin.api.server import serve_api
from tocsin.api.starting import StartingApp
from tocsin.cli.run.metrics import exported_metrics
from tocsin.cli.run.observed import exported_traces
from tocsin.cli.run.process import prepared_settings, run_until_stopped, when_available
from tocsin.cli.run.serve import running_database
from tocsin.compose.api import open_api
from tocsin.compose.duties import tune_gc
from tocsin.domain.errors import DatabaseUnavailableError
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
            served.append(app)
            tune_gc()
            return app

        async def drain() -> None:
            """End live sessions; the rest of the time is for other requests."""
            for each in served:
                each.state.dashboard_live.close()
                await each.state.live.drain(settings.http.drain_seconds / 2)

        try:
            app: ASGIApp = await opened()
        except DatabaseUnavailableError:
            # At the first start somebody looks; a process that is restarted answers meanwhile.
            if not tied:
                raise
            app = StartingApp()
            opening = asyncio.create_task(app.wait_for(when_available(opened, stop)))
            opening.add_done_callback(lambda task: stop.set() if task.exception() else None)
            exits.push_async_callback(lambda: opening)
        await serve_api(
            app,
            settings.http,
            stop,
            lambda at: _log.info("api started", address=at),
            websockets=settings.gateway.websockets,
            on_stop=drain,
        )
