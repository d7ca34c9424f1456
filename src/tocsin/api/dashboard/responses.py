"""Responses of the dashboard: rendered pages and redirects, with the headers that protect them."""

import base64
from collections.abc import Mapping
from typing import Any

import msgspec
from litestar.datastructures import Cookie
from litestar.response.base import ASGIResponse

from tocsin.api.dashboard.access import session_of
from tocsin.api.dashboard.rendering import render
from tocsin.api.dashboard.sessions import cookie_name, make_cookie
from tocsin.api.http.requests import ApiRequest

NOTICE = "tocsin_notice"
"""The cookie with the sentence that the next page shows once."""
_NOTICE_SECONDS = 60
_LONGEST_NOTICE = 300

# No content of other origins, no inline or evaluated code, and no other page may frame this one.
_UNFRAMED = "frame-ancestors 'none'"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "font-src 'self'; frame-src 'self'; base-uri 'none'; form-action 'self'; " + _UNFRAMED
)
HEADERS: Mapping[str, str] = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
    "cache-control": "no-store",
}


def headers_for(request: ApiRequest) -> dict[str, str]:
    """Return the headers of a page, which only the origin of `dashboard.framed_by` may frame."""
    headers, origin = dict(HEADERS), request.services.dashboard.framed_by
    if origin is not None:
        headers["content-security-policy"] = POLICY.replace(_UNFRAMED, f"frame-ancestors {origin}")
        del headers["x-frame-options"]
    return headers


class View(msgspec.Struct, frozen=True):
    """A template with what it shows; `status` is that of the response."""

    template: str
    context: Mapping[str, Any] = {}
    status: int = 200
    cookies: tuple[Cookie, ...] = ()


class Redirect(msgspec.Struct, frozen=True):
    """Where to go after a form was posted; the page there shows the notice once."""

    location: str
    notice: str | None = None
    cookies: tuple[Cookie, ...] = ()


def respond(request: ApiRequest, answer: View | Redirect | ASGIResponse) -> ASGIResponse:
    """Build the response of a handler's answer."""
    match answer:
        case View():
            return _page(request, answer)
        case Redirect():
            return redirect(request, answer)
        case _:
            return answer


def redirect(request: ApiRequest, to: Redirect) -> ASGIResponse:
    """Build a redirect to a path of the dashboard, for a browser or for HTMX."""
    cookies = list(to.cookies)
    if to.notice is not None:
        cookies.append(make_cookie(request, NOTICE, _encoded(to.notice), _NOTICE_SECONDS))
    is_htmx = "hx-request" in request.headers
    return ASGIResponse(
        status_code=204 if is_htmx else 303,
        headers={**headers_for(request), "hx-redirect" if is_htmx else "location": to.location},
        cookies=cookies,
    )


def _page(request: ApiRequest, view: View) -> ASGIResponse:
    notice = request.cookies.get(cookie_name(request, NOTICE))
    is_fragment = "hx-request" in request.headers
    shown = None if notice is None or is_fragment else _decoded(notice)
    text = render(request, session_of(request), view.template, {**view.context, "notice": shown})
    return ASGIResponse(
        body=text.encode(),
        status_code=view.status,
        media_type="text/html",
        headers=headers_for(request),
        cookies=[*view.cookies, *([make_cookie(request, NOTICE, "", 0)] if shown else [])],
    )


def _encoded(notice: str) -> str:
    return base64.urlsafe_b64encode(notice[:_LONGEST_NOTICE].encode()).decode()


def _decoded(cookie: str) -> str | None:
    try:
        return base64.urlsafe_b64decode(cookie.encode()).decode()[:_LONGEST_NOTICE]
    except ValueError:
        return None
