"""Signing out, here and at the issuer."""

from tocsin.api.dashboard.access import SIGN_IN, required_session
from tocsin.api.dashboard.responses import Redirect, View
from tocsin.api.dashboard.sessions import SESSION, close_all_sessions, close_session, make_cookie
from tocsin.api.dashboard.signing_in.form import oidc_of
from tocsin.api.dashboard.signing_in.pending_cookies import id_token_cookie, kept_id_token
from tocsin.api.http.requests import ApiRequest


async def sign_out(request: ApiRequest) -> View | Redirect:
    """End the session; somebody who signed in at an issuer is led there to sign out as well."""
    await close_session(request, request.pool)
    return await _signed_out(request)


async def sign_out_everywhere(request: ApiRequest) -> View | Redirect:
    """End every session of the API key or person."""
    await close_all_sessions(request.pool, required_session(request))
    return await _signed_out(request)


async def _signed_out(request: ApiRequest) -> View | Redirect:
    cookies = (make_cookie(request, SESSION, "", 0), id_token_cookie(request, "", 0))
    oidc = oidc_of(request) if required_session(request).owner.issuer is not None else None
    leaving = await oidc.sign_out_url(kept_id_token(request)) if oidc else None
    if oidc is None or leaving is None:
        return Redirect(SIGN_IN, cookies=cookies)
    # A page, not a redirect: the policy for forms lets them lead nowhere else.
    return View("leaving.html", {"location": leaving, "label": oidc.settings.label}, cookies=cookies)
