"""Builds a worker."""

from collections.abc import AsyncIterator, Collection
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from functools import partial

from tocsin.catalog.catalog import Catalog
from tocsin.catalog.events import check_events
from tocsin.compose.database import checked_pool, database_clock
from tocsin.compose.duties import catalog_watch
from tocsin.compose.parts import delivery_rules, known_toggles, planner
from tocsin.compose.platform_endpoints import open_platform_endpoints
from tocsin.compose.providers import checked_data_keys, kept_secrets, open_providers, open_webpush_keys
from tocsin.engine.broadcast.expansion import Expander
from tocsin.engine.broadcast.segments import SegmentSweep
from tocsin.engine.clock import utc_now
from tocsin.engine.health.activity import ActivityWriter
from tocsin.engine.periodic.load import load_sources
from tocsin.engine.periodic.run import RunTools
from tocsin.engine.periodic.scheduler import Scheduler
from tocsin.engine.toggles.toggles import ToggleWatch
from tocsin.engine.wake import Wake
from tocsin.engine.worker import Worker, WorkerSettings
from tocsin.providers.webpush.settings import WebPushSettings
from tocsin.settings.tree import Settings
from tocsin.store.pool import open_pool


@asynccontextmanager
async def open_worker(
    settings: Settings, url: str, catalog: Catalog, lanes: Collection[str] | None = None, kind: str = "worker"
) -> AsyncIterator[Worker]:
    """Build a worker that dispatches some lanes, or all, and runs what is periodic."""
    sources = load_sources(settings.periodic, catalog, utc_now())
    async with (
        checked_pool(settings, url, lookups_only=True) as pool,
        # Accepting wants other plans than dispatching does.
        open_pool(url, settings.schema, settings.pool) as accepting,
        open_providers(settings, secrets := await kept_secrets(settings, pool)) as providers,
        known_toggles(settings, pool) as toggles,
        AsyncExitStack() as exits,
    ):
        check = partial(check_events, providers=tuple(providers.values()))
        check(catalog)
        clock, keys = await database_clock(pool), await checked_data_keys(settings, pool)
        endpoints = await exits.enter_async_context(open_platform_endpoints(settings, pool, clock, keys))
        webpush_keys = await open_webpush_keys(
            settings, pool, secrets, providers.get(WebPushSettings.section)
        )
        run_tools = RunTools(
            pool=accepting,
            planner=planner(settings, catalog, toggles),
            lease_for=timedelta(seconds=settings.periodic.lease_seconds),
            clock=clock,
        )
        yield Worker(
            pool=pool,
            wake=Wake(url, settings.schema, settings.pool),
            watch=ToggleWatch(toggles, url, settings.schema, settings.pool),
            rules=delivery_rules(settings, catalog, toggles),
            providers=providers,
            settings=WorkerSettings(
                dispatch=settings.dispatch,
                health=settings.health,
                devices=settings.devices,
                unsubscribe=settings.unsubscribe,
                receipts=settings.receipts,
                rates=settings.rates,
                retention=settings.retention,
                data_keys=keys,
            ),
            clock=clock,
            lanes=lanes,
            more=[
                clock,
                ActivityWriter(pool),
                Scheduler(sources, run_tools),
                Expander(accepting, run_tools.planner, clock),
                SegmentSweep(pool, clock),
                catalog_watch(settings, catalog, pool, kind, clock, check),
                *(duty for duty in (webpush_keys, endpoints) if duty is not None),
            ],
        )
