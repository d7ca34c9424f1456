"""The form to sign in, and the path that is shown after it."""

import re
import secrets

from litestar.datastructures import Cookie

from tocsin.api.auth.oidc.client import OidcClient
from tocsin.api.dashboard.responses import View
from tocsin.api.dashboard.sessions import PATH, VISITOR, csrf_token, make_cookie, read_cookie
from tocsin.api.http.requests import ApiRequest

OIDC_START = f"{PATH}/oidc/start"
LONGEST_NEXT = 1_000
_OWN_PATH = re.compile(r"/dashboard(/[\w.~%@:-]+)*/?(\?[\w.~%@:&=+,;/*-]*)?", re.ASCII)


def own_path(wanted: str) -> str:
    """Return a path of the dashboard as it is, and the first page instead of anything else."""
    return wanted if len(wanted) <= LONGEST_NEXT and _OWN_PATH.fullmatch(wanted) else PATH


def oidc_of(request: ApiRequest) -> OidcClient | None:
    """Return the client of the issuer, if one is set."""
    client: OidcClient | None = request.app.state.oidc
    return client


def sign_in_form(
    request: ApiRequest,
    next_path: str,
    fault: str | None = None,
    *,
    status: int = 403,
    invalid_key: bool = False,
    cookies: tuple[Cookie, ...] = (),
) -> View:
    """Show the form to sign in, bound to a cookie of this browser; `status` is that of a fault."""
    visitor = read_cookie(request, VISITOR) or secrets.token_urlsafe(32)
    oidc = oidc_of(request)
    context = {
        "csrf": csrf_token(visitor),
        "next": next_path,
        "fault": fault,
        "invalid_key": invalid_key,
        # The cookie of a sign-in must be set at the address that the issuer leads back to.
        "oidc_start": f"{public_origin(request)}{OIDC_START}" if oidc else None,
        "oidc_label": oidc.settings.label if oidc else None,
    }
    return View(
        "sign_in.html",
        context,
        status=200 if fault is None else status,
        cookies=(make_cookie(request, VISITOR, visitor, None), *cookies),
    )


def public_origin(request: ApiRequest) -> str:
    """Return the origin of the settings, which is the one that the issuer leads back to."""
    return (request.services.dashboard.public_url or "").rstrip("/")
