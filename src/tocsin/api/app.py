"""The Litestar app of the HTTP API."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from litestar import Litestar
from litestar.datastructures import State

from tocsin.api import probes
from tocsin.api.auth.access import AccessControl
from tocsin.api.auth.api_keys import KeyRing
from tocsin.api.auth.tokens import PersonTokens
from tocsin.api.http.access_log import AccessLog
from tocsin.api.http.failures import FAILURES
from tocsin.api.http.requests import ApiRequest
from tocsin.api.openapi import openapi_document
from tocsin.api.operator import admin, alarms, progress, providers, suppressions, toggles
from tocsin.api.person import devices, preferences, unsubscribe, webpush
from tocsin.api.producer import decisions, notifications, users, webhooks
from tocsin.api.routes import PUBLIC, Routes, Tag
from tocsin.api.services import Services
from tocsin.catalog.catalog import Catalog
from tocsin.wire.people import RegisterDevice

routes = Routes(Tag.PROBES)


@routes("GET /openapi.json", "This description of the API", PUBLIC)
async def openapi_json(request: ApiRequest) -> dict[str, Any]:
    """Return the OpenAPI document."""
    document: dict[str, Any] = request.app.state.openapi
    return document


ROUTES = tuple(
    handler
    for declared in (
        devices.routes,
        webpush.routes,
        preferences.routes,
        unsubscribe.routes,
        notifications.routes,
        decisions.routes,
        users.routes,
        webhooks.routes,
        admin.routes,
        toggles.routes,
        providers.routes,
        progress.routes,
        alarms.routes,
        suppressions.routes,
        probes.routes,
        routes,
    )
    for handler in declared.handlers
)


def create_app(services: Services, catalog: Catalog | None = None) -> Litestar:
    """Build the app; the names of types are looked up in the catalog."""
    access = AccessControl(KeyRing(services.pool, services.clock), PersonTokens(services.auth))

    @asynccontextmanager
    async def closing(_: Litestar) -> AsyncIterator[None]:
        try:
            yield
        finally:
            await access.aclose()

    app = Litestar(
        ROUTES,
        before_request=access.check,
        exception_handlers=FAILURES,
        lifespan=[closing],
        logging_config=None,
        openapi_config=None,
        request_class=ApiRequest,
        request_max_body_size=services.http.max_body_bytes,
        state=State({"services": services, "catalog": catalog}),
    )
    app.state.registration = devices.registration_type(services.device_rules)
    app.state.openapi = openapi_document(app, {RegisterDevice: app.state.registration})
    app.asgi_handler = AccessLog(app.asgi_handler)
    return app
