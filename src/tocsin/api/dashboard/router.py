"""The routes of the dashboard."""

from litestar import Router
from litestar.enums import HttpMethod

from tocsin.api.dashboard.access import SIGN_IN, PageAccess, check_access
from tocsin.api.dashboard.assets import serve_asset
from tocsin.api.dashboard.failures import FAILURES
from tocsin.api.dashboard.page import route
from tocsin.api.dashboard.registry import PAGES
from tocsin.api.dashboard.sessions import PATH
from tocsin.api.dashboard.sign_in import show_first_page, show_form, sign_in, sign_out, sign_out_everywhere

_PUBLIC = PageAccess(public=True)
_SIGNED_IN = PageAccess()


def dashboard_router() -> Router:
    """Build the routes; each checks the session, its rights and the CSRF token."""
    return Router(
        "/",
        route_handlers=[
            route(HttpMethod.GET, PATH, _SIGNED_IN, show_first_page),
            route(HttpMethod.GET, SIGN_IN, _PUBLIC, show_form),
            route(HttpMethod.POST, SIGN_IN, _PUBLIC, sign_in),
            route(HttpMethod.POST, f"{PATH}/sign-out", _SIGNED_IN, sign_out),
            route(HttpMethod.POST, f"{PATH}/sign-out-everywhere", _SIGNED_IN, sign_out_everywhere),
            route(HttpMethod.GET, f"{PATH}/assets/{{name}}", _PUBLIC, serve_asset),
            *(handler for page in PAGES for handler in page.handlers),
        ],
        before_request=check_access,
        exception_handlers=FAILURES,
    )
