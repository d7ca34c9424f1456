"""Signing in with an API key."""

from datetime import timedelta
from typing import Annotated

import msgspec
from msgspec import Meta

from tocsin.api.auth.api_keys import KeyRing
from tocsin.api.dashboard.access import check_holder
from tocsin.api.dashboard.responses import Redirect, View
from tocsin.api.dashboard.sessions import (
    PATH,
    SESSION,
    VISITOR,
    close_session,
    key_owner,
    make_cookie,
    open_session,
)
from tocsin.api.dashboard.signing_in.form import LONGEST_NEXT, own_path, sign_in_form
from tocsin.api.http.problems import ProblemError
from tocsin.api.http.requests import ApiRequest

_UNKNOWN = "The API key is not known or was revoked."


class SignInForm(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An API key, and the path to show next."""

    key: Annotated[str, Meta(max_length=200)] = ""
    next: Annotated[str, Meta(max_length=LONGEST_NEXT)] = PATH


class SignInQuery(msgspec.Struct, frozen=True, kw_only=True):
    """The path to show next."""

    next: Annotated[str, Meta(max_length=LONGEST_NEXT)] = PATH


async def show_form(request: ApiRequest, query: SignInQuery) -> View:
    """Show the form to sign in; it is bound to a cookie of this browser."""
    return sign_in_form(request, query.next)


async def sign_in(request: ApiRequest, form: SignInForm) -> View | Redirect:
    """Open a session for the holder of an API key."""
    keys: KeyRing = request.app.state.key_ring
    holder = await keys.holder(form.key.strip())
    if holder is None:
        return sign_in_form(request, form.next, _UNKNOWN, invalid_key=True)
    try:
        check_holder(holder, request.services.auth)
    except ProblemError as error:
        return sign_in_form(request, form.next, error.problem.detail, invalid_key=True)
    await close_session(request, request.pool)
    lasts = timedelta(hours=request.services.dashboard.session_hours)
    session_id = await open_session(request.pool, key_owner(holder), lasts)
    return Redirect(
        own_path(form.next),
        cookies=(
            make_cookie(request, SESSION, session_id, int(lasts.total_seconds())),
            make_cookie(request, VISITOR, "", 0),
        ),
    )
