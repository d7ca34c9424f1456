"""The metrics of a process: scraped on a port of its own, exported, or reported to its parent."""

import asyncio
import os
import socket
import stat
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress

import msgspec
import structlog

from tocsin.api.settings import HttpSettings
from tocsin.cli.run.probes import served_beside
from tocsin.compose.duties import duties_running
from tocsin.engine.duty import repeat
from tocsin.engine.inspect.gauges import DatabaseGauges
from tocsin.settings.tree import Settings, providers_in_use
from tocsin.store.pool import open_pool
from tocsin.telemetry import metrics
from tocsin.telemetry.environment import Telemetry, read_environment
from tocsin.telemetry.samples import Samples, encode_samples, read_samples
from tocsin.telemetry.views import GALAXY, View

REPORT_SECONDS = 1.0
LAST_SECONDS = 2.0

_log = structlog.stdlib.get_logger(__name__)


@asynccontextmanager
async def exported_metrics(
    settings: Settings, url: str | None, read: Callable[[], Samples] = read_samples, *, tied: bool = False
) -> AsyncIterator[None]:
    """Count and export metrics if a port or an exporter of OpenTelemetry is set; otherwise do nothing.

    A process that is `tied` reports its own to its parent, which exports those of the whole tree. Without the
    address of a database there are no metrics of it.
    """
    telemetry = read_environment(os.environ)
    if settings.metrics.port is None and telemetry.metrics is None:
        yield
        return
    metrics.switch.on = True
    for name in providers_in_use(settings):
        if rate := settings.rates.of(name):
            metrics.rate_limit.set((name,), rate)
    if tied:
        async with _reported():
            yield
        return
    async with AsyncExitStack() as exits:
        gauges: DatabaseGauges | None = None
        if url is not None:
            pool_settings = msgspec.structs.replace(settings.pool, size=2)
            opening = open_pool(url, settings.schema, pool_settings, lookups_only=True)
            pool = await exits.enter_async_context(opening)
            gauges = DatabaseGauges(pool, list(providers_in_use(settings)))

        async def collect() -> Samples:
            if gauges is not None:
                await gauges.read()
            return read()

        if settings.metrics.port is not None:
            from tocsin.api.metrics import MetricsApp

            http = HttpSettings(host=settings.metrics.host, port=settings.metrics.port)
            serving = served_beside(MetricsApp(collect), http, section="metrics")
            _log.info("metrics started", address=await exits.enter_async_context(serving))
        if telemetry.metrics is not None:
            views = GALAXY if settings.metrics.names == "galaxy" else ()
            await exits.enter_async_context(_exported(telemetry, collect, views))
        yield


@asynccontextmanager
async def _exported(
    telemetry: Telemetry, collect: Callable[[], Awaitable[Samples]], views: Sequence[View]
) -> AsyncIterator[None]:
    """Export by OpenTelemetry every so often, and once more at the end."""
    from tocsin.telemetry.otlp import MetricsExport

    export = MetricsExport(telemetry.metrics or "otlp", views=views)

    async def step() -> None:
        if not await asyncio.to_thread(export.export, await collect()):
            _log.warning("metrics not exported", retry_in_seconds=telemetry.metrics_every)

    try:
        async with duties_running(_Every(step, "metrics export", telemetry.metrics_every)):
            yield
    finally:
        try:
            async with asyncio.timeout(LAST_SECONDS):
                await step()
        except TimeoutError:
            _log.warning("metrics not exported")
        # It ends a call under way, for which the process would wait otherwise.
        export.close()


@asynccontextmanager
async def _reported() -> AsyncIterator[None]:
    """Report to the parent every second, and once more at the end."""
    if not stat.S_ISSOCK(os.fstat(sys.stdin.fileno()).st_mode):
        # Nobody reads: it was not started by a supervisor.
        yield
        return
    loop = asyncio.get_running_loop()
    with socket.socket(fileno=os.dup(sys.stdin.fileno())) as line:
        line.setblocking(False)

        sending: asyncio.Task[None] | None = None

        async def send() -> None:
            await loop.sock_sendall(line, encode_samples(read_samples()))

        async def step() -> None:
            nonlocal sending
            # A step that is cancelled does not end its line: the next would be read as the rest of it.
            if sending is not None and not sending.done():
                await asyncio.shield(sending)
            sending = asyncio.create_task(send())
            await asyncio.shield(sending)

        try:
            async with duties_running(_Every(step, "metrics report", REPORT_SECONDS)):
                yield
        finally:
            try:
                # The parent may be gone, or no longer read.
                with suppress(OSError):
                    async with asyncio.timeout(LAST_SECONDS):
                        await step()
            finally:
                if sending is not None and not sending.done():
                    sending.cancel()
                    await asyncio.wait([sending])


class _Every:
    """A duty that repeats a step."""

    def __init__(self, step: Callable[[], Awaitable[None]], name: str, every: float) -> None:
        self._step = step
        self._name = name
        self._every = every

    async def run(self) -> None:
        """Repeat the step until cancelled."""
        await repeat(self._step, name=self._name, every=self._every)
