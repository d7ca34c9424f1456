"""The HTTP edge put together."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from litestar import Litestar, Request, get
from litestar.datastructures import State
from litestar.response.base import ASGIResponse

from tocsin.api import probes
from tocsin.api.auth.access import Gate
from tocsin.api.auth.api_keys import KeyRing
from tocsin.api.auth.tokens import PersonTokens
from tocsin.api.http.access_log import AccessLog
from tocsin.api.http.failures import FAILURES
from tocsin.api.http.replies import reply
from tocsin.api.openapi import openapi_document
from tocsin.api.operations import AnyoneMay, Operation, Tag, declared
from tocsin.api.operator import admin, alarms, progress, providers, suppressions, toggles
from tocsin.api.person import devices, preferences, unsubscribe, webpush
from tocsin.api.producer import decisions, notifications, users, webhooks
from tocsin.api.services import Services
from tocsin.catalog.catalog import Catalog

ROUTES = (
    devices.register_device,
    devices.unregister_device,
    devices.list_devices,
    devices.change_device,
    webpush.webpush_key,
    preferences.get_preferences,
    preferences.change_preferences,
    preferences.list_categories,
    unsubscribe.ask_to_unsubscribe,
    unsubscribe.unsubscribe,
    notifications.accept_notification,
    notifications.accept_batch,
    decisions.explain_notification,
    decisions.cancel_by_key,
    decisions.cancel_notification,
    decisions.reschedule_notification,
    notifications.show_notification,
    notifications.list_notifications,
    users.put_user,
    users.put_users,
    users.get_user,
    webhooks.add_webhook,
    webhooks.list_webhooks,
    webhooks.retire_webhook,
    webhooks.rotate_webhook,
    admin.list_refused,
    admin.list_keys,
    admin.make_key,
    admin.revoke_key,
    toggles.list_toggles,
    toggles.switch_toggle,
    toggles.toggle_history,
    providers.list_providers,
    providers.pause_provider,
    providers.resume_provider,
    providers.try_provider,
    progress.list_progress,
    progress.run_producer,
    progress.rewind_producer,
    alarms.list_alarms,
    alarms.clear_alarm,
    suppressions.list_suppressions,
    suppressions.suppress_address,
    suppressions.remove_suppression,
    probes.healthz,
    probes.readyz,
)


def create_app(services: Services, catalog: Catalog | None = None) -> Litestar:
    """Build the app from what its handlers work with; names of types are looked up in the catalog."""
    gate = Gate(KeyRing(services.pool, services.clock), PersonTokens(services.auth))

    @asynccontextmanager
    async def closing_gate(_: Litestar) -> AsyncIterator[None]:
        try:
            yield
        finally:
            await gate.aclose()

    app = Litestar(
        [*ROUTES, openapi_json],
        before_request=gate.admit,
        exception_handlers=FAILURES,
        lifespan=[closing_gate],
        logging_config=None,
        openapi_config=None,
        request_max_body_size=services.http.max_body_bytes,
        state=State({"services": services, "catalog": catalog, "webpush_key": services.webpush_key}),
    )
    app.state.registration = devices.registration_type(services.device_rules)
    app.state.openapi = openapi_document(app, {devices.RegisterDevice: app.state.registration})
    app.asgi_handler = AccessLog(app.asgi_handler)
    return app


@get(
    "/openapi.json",
    opt=declared(
        Operation(
            tag=Tag.PROBES,
            summary="This description of the API",
            access=AnyoneMay(),
            answers={200: dict[str, Any]},
        )
    ),
)
async def openapi_json(request: Request[Any, Any, Any]) -> ASGIResponse:
    """Give the OpenAPI document."""
    return reply(request.app.state.openapi)
