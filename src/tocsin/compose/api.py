"""Builds the HTTP application."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

import msgspec

from tocsin.engine.accept.acceptor import Acceptor
from tocsin.engine.health.activity import ActivityWriter
from tocsin.engine.toggles.toggles import ToggleWatch
from tocsin.providers.registry import device_rules
from tocsin.providers.webhook.settings import WebhookSettings
from tocsin.settings.tree import Settings
from tocsin.store.pool import first_connection

if TYPE_CHECKING:
    from litestar import Litestar

    from tocsin.gateway.inbox.live import LiveInbox
from tocsin.compose.catalog import read_catalog
from tocsin.compose.database import checked_pool, database_clock
from tocsin.compose.duties import catalog_watch, duties_running
from tocsin.compose.oidc import checked_oidc
from tocsin.compose.parts import explainer, known_toggles, planner
from tocsin.compose.platform_endpoints import open_platform_endpoints
from tocsin.compose.providers import checked_data_keys, kept_secrets, open_webpush_keys
from tocsin.compose.providers_in_use import provider_summaries


@asynccontextmanager
async def open_api(settings: Settings, url: str) -> AsyncIterator["Litestar"]:
    """Build the HTTP application on a migrated database."""
    # Of all processes the API alone needs the web framework, which is slow to import.
    from tocsin.api.app import create_app  # noqa: PLC0415
    from tocsin.api.dashboard.sessions import stored_cookie_suffix  # noqa: PLC0415
    from tocsin.api.services import Services  # noqa: PLC0415
    from tocsin.gateway.inbox.live import LiveInbox  # noqa: PLC0415

    catalog = read_catalog(settings)
    async with (
        checked_pool(settings, url) as pool,
        known_toggles(settings, pool) as toggles,
        AsyncExitStack() as exits,
    ):
        webpush_keys = await open_webpush_keys(settings, pool, await kept_secrets(settings, pool))
        clock, keys = await database_clock(pool), await checked_data_keys(settings, pool)
        async with first_connection(pool) as connection:
            cookie_suffix = await stored_cookie_suffix(connection, clock())
        endpoints = await exits.enter_async_context(open_platform_endpoints(settings, pool, clock, keys))
        services = Services(
            pool=pool,
            acceptor=Acceptor(pool, planner(settings, catalog, toggles), clock),
            explainer=explainer(settings, catalog, toggles),
            clock=clock,
            schema=settings.schema,
            cookie_suffix=cookie_suffix,
            providers=provider_summaries(settings),
            auth=settings.auth,
            devices=settings.devices,
            http=settings.http,
            dashboard=settings.dashboard,
            oidc=checked_oidc(settings.oidc),
            unsubscribe=settings.unsubscribe,
            receipts=settings.receipts,
            webhook=settings.provider(WebhookSettings),
            device_rules=device_rules(settings.registry),
            webpush_keys=webpush_keys,
            platform_endpoints=endpoints,
            data_keys=keys,
            slow_seconds=settings.log.slow_seconds,
        )
        watch = ToggleWatch(toggles, url, settings.schema, settings.pool)
        reloads = catalog_watch(settings, catalog, pool, "api", clock)
        optional = [duty for duty in (webpush_keys, endpoints) if duty is not None]
        live = _live_inbox(settings, url, LiveInbox)
        exits.push_async_callback(live.aclose)
        async with duties_running(watch, clock, reloads, live.source, ActivityWriter(pool), *optional):
            app = create_app(services, catalog)
            app.asgi_handler = live.beside(app.asgi_handler)
            app.state.live = live
            yield app


def _live_inbox(settings: Settings, url: str, build: "type[LiveInbox]") -> "LiveInbox":
    """Build the live inboxes of an API process, whose connections are for other callers too."""
    from tocsin.gateway.inbox.live import Database  # noqa: PLC0415 - imports the web framework

    most = min(settings.gateway.max_sessions, max(1, settings.http.max_connections // 2))
    database = Database(url=url, schema=settings.schema, settings=settings.pool)
    return build(msgspec.structs.replace(settings.gateway, max_sessions=most), settings.auth, database)
