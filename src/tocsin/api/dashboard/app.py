"""The dashboard in an app: its routes beside those of the API, or an app of its own."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

from litestar import Litestar, Router
from litestar.datastructures import State

from tocsin.api.auth.api_keys import KeyRing
from tocsin.api.auth.oidc.client import OidcClient
from tocsin.api.dashboard.access import SIGN_IN
from tocsin.api.dashboard.live.hub import LiveHub
from tocsin.api.dashboard.registry import PAGES
from tocsin.api.dashboard.router import dashboard_router
from tocsin.api.dashboard.signing_in.oidc import CALLBACK
from tocsin.api.http.access_log import AccessLog
from tocsin.api.http.body_deadline import BodyDeadline
from tocsin.api.http.encoded_slashes import EncodedSlashes
from tocsin.api.http.failures import FAILURES
from tocsin.api.http.requests import ApiRequest
from tocsin.api.probes import healthz, readyz
from tocsin.api.services import Services
from tocsin.catalog.catalog import Catalog
from tocsin.engine.inspect.activity import CountHistory
from tocsin.providers.http.ca_file import read_ca_file


class DashboardParts(NamedTuple):
    """What an app needs to serve the dashboard: routes, state, and what to call when it shuts down."""

    router: Router
    state: Mapping[str, Any]
    on_shutdown: tuple[Callable[[], Awaitable[None]], ...]


def dashboard_parts(services: Services, keys: KeyRing) -> DashboardParts:
    """Build the parts of the dashboard; keys are looked up in the ring of the API."""
    oidc = _oidc_client(services)
    router = dashboard_router(with_oidc=oidc is not None, at_root=services.dashboard.port is not None)
    state = {
        "key_ring": keys,
        "dashboard_pages": PAGES,
        "dashboard_live": LiveHub(),
        "dashboard_counts": CountHistory(),
        "oidc": oidc,
    }
    return DashboardParts(router, state, () if oidc is None else (oidc.aclose,))


def create_dashboard_app(services: Services, catalog: Catalog | None, parts: DashboardParts) -> Litestar:
    """Build the app of a dashboard that has a port of its own; it has the probes of the process too."""
    app = Litestar(
        [healthz, readyz, parts.router],
        exception_handlers=FAILURES,
        logging_config=None,
        on_shutdown=[*parts.on_shutdown],
        openapi_config=None,
        request_class=ApiRequest,
        request_max_body_size=services.http.max_body_bytes,
        state=State({"services": services, "catalog": catalog, **parts.state}),
    )
    app.asgi_handler = AccessLog(
        EncodedSlashes(BodyDeadline(app.asgi_handler, services.http.body_seconds)), services.slow_seconds
    )
    return app


def _oidc_client(services: Services) -> OidcClient | None:
    if services.oidc.issuer is None:
        return None
    origin = (services.dashboard.public_url or "").rstrip("/")
    return OidcClient(
        services.oidc,
        redirect_uri=origin + CALLBACK,
        after_sign_out=origin + SIGN_IN,
        certificates=read_ca_file(services.oidc.ca_file),
    )
