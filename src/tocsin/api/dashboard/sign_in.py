"""Signing in with an API key, and out."""

import re
import secrets
from datetime import timedelta
from typing import Annotated

import msgspec
from msgspec import Meta

from tocsin.api.auth.api_keys import KeyRing
from tocsin.api.dashboard.access import check_holder, session_of
from tocsin.api.dashboard.responses import Redirect, View
from tocsin.api.dashboard.sessions import (
    PATH,
    SESSION,
    VISITOR,
    close_all_sessions,
    close_session,
    csrf_token,
    make_cookie,
    open_session,
    read_cookie,
)
from tocsin.api.http.problems import ProblemError
from tocsin.api.http.requests import ApiRequest

_OWN_PATH = re.compile(r"/dashboard(/[\w.~%@:-]+)*/?(\?[\w.~%@:&=+,;/*-]*)?", re.ASCII)
_UNKNOWN = "The API key is not known or was revoked."


class SignInForm(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An API key, and the path to show next."""

    key: Annotated[str, Meta(max_length=200)] = ""
    next: Annotated[str, Meta(max_length=1_000)] = PATH


class SignInQuery(msgspec.Struct, frozen=True, kw_only=True):
    """The path to show next."""

    next: Annotated[str, Meta(max_length=1_000)] = PATH


async def show_form(request: ApiRequest, query: SignInQuery) -> View:
    """Show the form to sign in; it is bound to a cookie of this browser."""
    return _form(request, query.next)


async def sign_in(request: ApiRequest, form: SignInForm) -> View | Redirect:
    """Open a session for the holder of an API key."""
    keys: KeyRing = request.app.state.key_ring
    holder = await keys.holder(form.key.strip())
    if holder is None:
        return _form(request, form.next, _UNKNOWN)
    try:
        check_holder(holder, request.services.auth)
    except ProblemError as error:
        return _form(request, form.next, error.problem.detail)
    await close_session(request, request.pool)
    lasts = timedelta(hours=request.services.dashboard.session_hours)
    session_id = await open_session(request.pool, holder, lasts)
    return Redirect(
        form.next if _OWN_PATH.fullmatch(form.next) else PATH,
        cookies=(
            make_cookie(request, SESSION, session_id, int(lasts.total_seconds())),
            make_cookie(request, VISITOR, "", 0),
        ),
    )


async def sign_out(request: ApiRequest) -> Redirect:
    """End the session."""
    await close_session(request, request.pool)
    return Redirect(f"{PATH}/sign-in", cookies=(make_cookie(request, SESSION, "", 0),))


async def sign_out_everywhere(request: ApiRequest) -> Redirect:
    """End every session of the API key."""
    await close_all_sessions(request.pool, request.holder)
    return Redirect(f"{PATH}/sign-in", cookies=(make_cookie(request, SESSION, "", 0),))


async def show_first_page(request: ApiRequest) -> Redirect:
    """Lead to the first page that whoever has signed in may see."""
    session = session_of(request)
    if session is None:
        raise LookupError("the route needs a session")
    permitted = (
        page.path for page in request.app.state.dashboard_pages if page.access.permits(session.holder)
    )
    return Redirect(next(permitted))


def _form(request: ApiRequest, next_path: str, fault: str | None = None) -> View:
    visitor = read_cookie(request, VISITOR) or secrets.token_urlsafe(32)
    context = {"csrf": csrf_token(visitor), "next": next_path, "fault": fault}
    return View(
        "sign_in.html",
        context,
        status=200 if fault is None else 403,
        cookies=(make_cookie(request, VISITOR, visitor, None),),
    )
