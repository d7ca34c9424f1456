"""The routes of the dashboard."""

from litestar import Router
from litestar.enums import HttpMethod

from tocsin.api.dashboard.access import SIGN_IN, PageAccess, check_access, required_session
from tocsin.api.dashboard.assets import serve_asset
from tocsin.api.dashboard.failures import FAILURES
from tocsin.api.dashboard.page import route
from tocsin.api.dashboard.registry import PAGES
from tocsin.api.dashboard.responses import Redirect
from tocsin.api.dashboard.sessions import PATH
from tocsin.api.dashboard.signing_in import oidc
from tocsin.api.dashboard.signing_in.api_key import show_form, sign_in
from tocsin.api.dashboard.signing_in.form import OIDC_START
from tocsin.api.dashboard.signing_in.sign_out import sign_out, sign_out_everywhere
from tocsin.api.http.requests import ApiRequest

_PUBLIC = PageAccess(public=True)
_SIGNED_IN = PageAccess()
_LEAVING = PageAccess(ends_sessions=True)


async def show_first_page(request: ApiRequest) -> Redirect:
    """Lead to the first page that whoever has signed in may see."""
    holder = required_session(request).holder
    return Redirect(next(page.path for page in PAGES if page.access.permits(holder)))


async def show_dashboard(_: ApiRequest) -> Redirect:
    """Lead from the root of the dashboard's own port to its pages."""
    return Redirect(PATH)


def dashboard_router(*, with_oidc: bool, at_root: bool) -> Router:
    """Build the routes; each checks the session, its rights and the CSRF token."""
    by_oidc = [
        route(HttpMethod.GET, OIDC_START, _PUBLIC, oidc.start),
        route(HttpMethod.GET, oidc.CALLBACK, _PUBLIC, oidc.finish),
    ]
    return Router(
        "/",
        route_handlers=[
            route(HttpMethod.GET, PATH, _SIGNED_IN, show_first_page),
            route(HttpMethod.GET, SIGN_IN, _PUBLIC, show_form),
            route(HttpMethod.POST, SIGN_IN, _PUBLIC, sign_in),
            *(by_oidc if with_oidc else ()),
            *([route(HttpMethod.GET, "/", _PUBLIC, show_dashboard)] if at_root else ()),
            route(HttpMethod.POST, f"{PATH}/sign-out", _LEAVING, sign_out),
            route(HttpMethod.POST, f"{PATH}/sign-out-everywhere", _LEAVING, sign_out_everywhere),
            route(HttpMethod.GET, f"{PATH}/assets/{{name}}", _PUBLIC, serve_asset),
            *(handler for page in PAGES for handler in page.handlers),
        ],
        before_request=check_access,
        exception_handlers=FAILURES,
    )
