"""Access to the dashboard: a live session with the right of the route, and a CSRF token on each POST."""

from typing import Any, Literal, cast
from urllib.parse import quote

import msgspec
from litestar import Request

from tocsin.api.auth.holders import Holder
from tocsin.api.auth.roles import Right
from tocsin.api.dashboard.forms import form_fields
from tocsin.api.dashboard.sessions import SESSION, VISITOR, Session, find_session, is_csrf_token, read_cookie
from tocsin.api.http.problems import (
    NO_ORGANISATION,
    NOT_ALLOWED,
    NOT_FOR_ORGANISATIONS,
    ProblemError,
)
from tocsin.api.http.requests import ApiRequest
from tocsin.api.settings import AuthSettings

ACCESS: Literal["dashboard_access"] = "dashboard_access"
SESSION_KEY = "auth"
SIGN_IN = "/dashboard/sign-in"
CSRF_FIELD = "csrf_token"
CSRF_HEADER = "x-csrf-token"
_LONGEST_NEXT = 1_000


class PageAccess(msgspec.Struct, frozen=True, kw_only=True):
    """Who may call a route of the dashboard.

    Without a right, everybody who has signed in; one that is not `within_organisation` is closed to whoever
    is bound to an organisation. A `public` one needs no session. One that `ends_sessions` is open to whoever
    may use nothing else any more.
    """

    right: Right | None = None
    within_organisation: bool = True
    public: bool = False
    ends_sessions: bool = False

    def permits(self, holder: Holder) -> bool:
        """Return whether a holder may call it."""
        is_within = holder.org_id is None or self.within_organisation
        return is_within and (self.right is None or holder.may(self.right))


class SignedOutError(Exception):
    """The route needs a session; `next_path` is where to go after signing in."""

    def __init__(self, next_path: str | None) -> None:
        super().__init__("not signed in")
        self.next_path = next_path

    @property
    def location(self) -> str:
        """The address of the form to sign in."""
        return f"{SIGN_IN}?next={quote(self.next_path, safe='/')}" if self.next_path else SIGN_IN


async def check_access(given: Request[Any, Any, Any]) -> None:
    """Find the session, check its rights and the CSRF token; raise if the request may not go on.

    A route without a declared access is closed.
    """
    request = cast("ApiRequest", given)
    access: PageAccess | None = request.route_handler.opt.get(ACCESS)
    if access is None:
        raise ProblemError(NOT_ALLOWED, "This route is closed.")
    request.scope["auth"] = session = None if access.public else await find_session(request)
    if session is None and not access.public:
        raise SignedOutError(_next_path(request))
    if request.method != "GET":
        await _check_csrf(request, VISITOR if access.public else SESSION)
    if session is not None:
        if not access.ends_sessions:
            check_holder(session.holder, request.services.auth)
            _check_rights(access, session.holder)
        request.scope["user"] = session.holder


async def is_still_allowed(request: ApiRequest) -> bool:
    """Return whether the session of a request that goes on for long may still make it."""
    access: PageAccess = request.route_handler.opt[ACCESS]
    session = await find_session(request)
    if session is None or not access.permits(session.holder):
        return False
    try:
        check_holder(session.holder, request.services.auth)
    except ProblemError:
        return False
    return True


def check_holder(holder: Holder, settings: AuthSettings) -> None:
    """Raise a problem if the holder may not use the dashboard at all."""
    if not holder.may(Right.SEE_ALL):
        raise ProblemError(NOT_ALLOWED, holder.lacks(Right.SEE_ALL))
    if holder.org_id is not None and not settings.org_scoping:
        # Switching it off must not give anyone access to everything.
        credential = "session" if holder.key_id is None else "API key"
        detail = f"The {credential} is bound to an organisation, and TOCSIN_AUTH__ORG_SCOPING is off."
        raise ProblemError(NO_ORGANISATION, detail)
    is_unbound_person = holder.name is not None and holder.org_id is None
    if is_unbound_person and settings.org_scoping and not {*holder.roles} & {*settings.unscoped_roles}:
        # Nor must switching it on leave everything to those who signed in before.
        detail = "The session is bound to no organisation, and TOCSIN_AUTH__ORG_SCOPING is on. Sign in again."
        raise ProblemError(NO_ORGANISATION, detail)


def session_of(request: ApiRequest) -> Session | None:
    """Return the session that was found for a request."""
    session: Session | None = request.scope["auth"] if SESSION_KEY in request.scope else None
    return session


def required_session(request: ApiRequest) -> Session:
    """Return the session of a route that needs one."""
    session = session_of(request)
    if session is None:
        raise LookupError("the route needs a session")
    return session


def _check_rights(access: PageAccess, holder: Holder) -> None:
    if access.right is not None and not holder.may(access.right):
        raise ProblemError(NOT_ALLOWED, holder.lacks(access.right))
    if not access.permits(holder):
        detail = "The page is not for those who are bound to an organisation."
        raise ProblemError(NOT_FOR_ORGANISATIONS, detail)


async def _check_csrf(request: ApiRequest, cookie: str) -> None:
    own = read_cookie(request, cookie)
    header = request.headers.get(CSRF_HEADER)
    given = header if header is not None else (await form_fields(request)).get(CSRF_FIELD, [""])[-1]
    # Browsers say where a request comes from; what a page cannot set, it cannot forge.
    is_foreign = request.headers.get("sec-fetch-site", "same-origin") not in {"same-origin", "none"}
    if own is None or is_foreign or not is_csrf_token(given, own):
        detail = "The form is not from this session. Reload the page and send it again."
        raise ProblemError(NOT_ALLOWED, detail)


def _next_path(request: ApiRequest) -> str | None:
    """Return where somebody wanted to go, if that can be shown after signing in."""
    if request.method != "GET" or "hx-request" in request.headers:
        return None
    query = request.scope["query_string"].decode("ascii", "replace")
    path = request.scope["path"] + (f"?{query}" if query else "")
    return path if len(path) <= _LONGEST_NEXT else None
