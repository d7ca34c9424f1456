"""The Litestar app of the HTTP API."""

from functools import cache, partial

from litestar import Litestar
from litestar.datastructures import State

from tocsin.api import probes
from tocsin.api.auth.access import AccessControl
from tocsin.api.auth.api_keys import KeyRing
from tocsin.api.auth.tokens import PersonTokens
from tocsin.api.dashboard.app import create_dashboard_app, dashboard_parts
from tocsin.api.delivery import endpoints
from tocsin.api.http.access_log import AccessLog
from tocsin.api.http.body_deadline import BodyDeadline
from tocsin.api.http.encoded_slashes import EncodedSlashes
from tocsin.api.http.failures import FAILURES
from tocsin.api.http.requests import ApiRequest
from tocsin.api.openapi import openapi_document
from tocsin.api.operator import (
    admin,
    alarms,
    audit,
    cancelling,
    catalog,
    dead_letters,
    erasure,
    people,
    progress,
    providers,
    queue,
    suppressions,
    toggles,
)
from tocsin.api.operator import receipts as receipt_rates
from tocsin.api.person import (
    component,
    devices,
    fisa_devices,
    inbox,
    preferences,
    receipts,
    unsubscribe,
    webpush,
)
from tocsin.api.producer import decisions, notifications, search, segments, users, webhooks
from tocsin.api.services import Services
from tocsin.catalog.catalog import Catalog
from tocsin.wire.people import RegisterDevice

PERSON = (devices, webpush, preferences, inbox, component, receipts, unsubscribe)
PRODUCER = (notifications, search, decisions, users, segments, webhooks)
DELIVERY = (endpoints,)
OPERATOR = (
    admin,
    toggles,
    providers,
    progress,
    alarms,
    suppressions,
    catalog,
    audit,
    queue,
    dead_letters,
    people,
    erasure,
    cancelling,
    receipt_rates,
)
STREAMED = "/v1/segments/"
"""The paths of bodies that are stored while they are received."""
ROUTES = tuple(
    handler
    for module in (*PERSON, *PRODUCER, *DELIVERY, *OPERATOR, probes)
    for handler in module.routes.handlers
)


def create_app(services: Services, catalog: Catalog | None = None) -> Litestar:
    """Build the app; the names of types are looked up in the catalog.

    If the dashboard has a port of its own, its app is `state.dashboard_app`.
    """
    keys = KeyRing(services.pool, services.clock)
    access = AccessControl(keys, PersonTokens(services.auth), services.auth)
    dashboard = dashboard_parts(services, keys) if services.dashboard.enabled else None
    beside = dashboard if services.dashboard.port is None else None
    app = Litestar(
        [
            *ROUTES,
            *(fisa_devices.routes.handlers if services.http.fisa_paths else ()),
            *([beside.router] if beside else ()),
        ],
        before_request=access.check,
        exception_handlers=FAILURES,
        logging_config=None,
        on_shutdown=[access.aclose, *(beside.on_shutdown if beside else ())],
        openapi_config=None,
        request_class=ApiRequest,
        request_max_body_size=services.http.max_body_bytes,
        state=State({"services": services, "catalog": catalog, **(beside.state if beside else {})}),
    )
    app.state.dashboard_app = (
        create_dashboard_app(services, catalog, dashboard) if dashboard and not beside else None
    )
    app.state.registration = devices.registration_type(services.device_rules)
    # Few ask for it, so that it is not built at every start.
    app.state.openapi = cache(partial(openapi_document, app, {RegisterDevice: app.state.registration}))
    app.asgi_handler = AccessLog(
        EncodedSlashes(BodyDeadline(app.asgi_handler, services.http.body_seconds, STREAMED)),
        services.slow_seconds,
    )
    return app
