"""The traces of a process, if the variables of OpenTelemetry ask for them."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tocsin.telemetry.environment import read_environment
from tocsin.telemetry.tracing import tracing


@asynccontextmanager
async def exported_traces() -> AsyncIterator[None]:
    """Record and export traces if an exporter is set; otherwise do nothing."""
    exporter = read_environment(os.environ).traces
    if exporter is None:
        yield
        return
    from tocsin.telemetry.tracer import Tracer  # noqa: PLC0415 - it takes half a second to import

    tracing.tracer = tracer = Tracer(exporter)
    try:
        yield
    finally:
        tracing.tracer = None
        await asyncio.to_thread(tracer.close)
