"""Duties that run beside the main work of a process, and the clock they share."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta

from tocsin.catalog.catalog import Catalog
from tocsin.compose.catalog import catalog_folder
from tocsin.domain.delivery.backoff import Exponential
from tocsin.engine.catalog_watch import CatalogWatch
from tocsin.engine.clock import Clock
from tocsin.engine.duty import Duty, repeat
from tocsin.settings.tree import Settings
from tocsin.store.pool import Pool

RESTART = Exponential(timedelta(seconds=1), timedelta(minutes=1))


"""How long a duty that crashed waits until it is started again."""


def catalog_watch(
    settings: Settings,
    catalog: Catalog,
    pool: Pool,
    kind: str,
    clock: Clock,
    check: Callable[[Catalog], None] | None = None,
) -> CatalogWatch:
    """Build the duty that reloads the catalog of a process."""
    folder = catalog_folder(settings)
    return CatalogWatch(catalog, folder, kind=kind, pool=pool, clock=clock, check=check)


@asynccontextmanager
async def duties_running(*duties: Duty) -> AsyncIterator[None]:
    """Run duties beside the main work of a process, and end them with it.

    One that crashes is started again after a pause: the process goes on to serve, and what it was told last
    holds meanwhile.
    """
    tasks = [
        asyncio.create_task(
            repeat(duty.run, name=type(duty).__name__, every=0, faults=(Exception,), backoff=RESTART)
        )
        for duty in duties
    ]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
