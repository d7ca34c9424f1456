"""What shows how a process does: its probes, metrics and traces."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Protocol, TypeVar

from tocsin.catalog.catalog import Catalog
from tocsin.cli.run.metrics import exported_metrics
from tocsin.cli.run.probes import answered_probes
from tocsin.cli.run.process import when_started
from tocsin.gc_tuning import tune_gc
from tocsin.settings.tree import Settings
from tocsin.telemetry.environment import read_environment
from tocsin.telemetry.tracing import tracing

T = TypeVar("T")


class Runnable(Protocol):
    """A part of a process."""

    async def run(self, stop: asyncio.Event) -> None:
        """Run until `stop` is set."""
        ...


@asynccontextmanager
async def observed(
    opening: Callable[[], AbstractAsyncContextManager[T]],
    settings: Settings,
    url: str,
    catalog: Catalog,
    stop: asyncio.Event,
    *,
    tied: bool,
) -> AsyncIterator[T | None]:
    """Open a process with its probes, metrics and traces; yield None if it is stopped before it has begun."""
    async with (
        answered_probes(settings, url) as probes,
        exported_metrics(settings, url, tied=tied),
        exported_traces(),
        AsyncExitStack() as exits,
    ):
        opened = await when_started(lambda: exits.enter_async_context(opening()), stop, tied=tied)
        if opened is not None:
            tune_gc()
            probes.catalog = catalog
        yield opened


async def run_all(parts: Iterable[Runnable], stop: asyncio.Event) -> None:
    """Run the parts of a process together until `stop` is set."""
    async with asyncio.TaskGroup() as running:
        for part in parts:
            running.create_task(part.run(stop))


@asynccontextmanager
async def exported_traces() -> AsyncIterator[None]:
    """Record and export traces if an exporter is set; otherwise do nothing."""
    exporter = read_environment(os.environ).traces
    if exporter is None:
        yield
        return
    from tocsin.telemetry.tracer import Tracer

    tracing.tracer = tracer = Tracer(exporter)
    try:
        yield
    finally:
        tracing.tracer = None
        await asyncio.to_thread(tracer.close)
