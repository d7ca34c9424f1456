"""Builds from the settings what several processes share."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tocsin.catalog.catalog import Catalog
from tocsin.compose.providers_in_use import providers_by_channel
from tocsin.domain.timing.quiet_hours import QuietHours
from tocsin.engine.accept.planner import Planner
from tocsin.engine.dispatch.rules import DeliveryRules
from tocsin.engine.inspect.explain import Explainer
from tocsin.engine.toggles.toggles import Toggles
from tocsin.settings.tree import Settings, providers_in_use
from tocsin.store.pool import Pool, first_connection


@asynccontextmanager
async def known_toggles(settings: Settings, pool: Pool) -> AsyncIterator[Toggles]:
    """Read the toggles as they stand."""
    toggles = Toggles(settings.toggles)
    try:
        async with first_connection(pool) as connection:
            await toggles.load(connection)
        yield toggles
    finally:
        toggles.close()


def delivery_rules(settings: Settings, catalog: Catalog, toggles: Toggles) -> DeliveryRules:
    """Build the rules that decide about deliveries."""
    return DeliveryRules(
        catalog=catalog,
        providers=frozenset(providers_in_use(settings)),
        toggles=toggles,
        quiet=QuietHours.compile(settings.quiet_hours),
        limits=settings.limits,
    )


def planner(settings: Settings, catalog: Catalog, toggles: Toggles) -> Planner:
    """Build the planner of intents."""
    return Planner(
        catalog,
        providers_by_channel(settings),
        settings.admin_emails,
        toggles,
        settings.delivery.largest_audience,
    )


def explainer(settings: Settings, catalog: Catalog, toggles: Toggles) -> Explainer:
    """Build the explainer of intents."""
    return Explainer(planner(settings, catalog, toggles), delivery_rules(settings, catalog, toggles))
