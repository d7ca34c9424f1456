"""Signing in with OpenID Connect: leading to the issuer, and what it leads back with."""

from datetime import timedelta

import msgspec
import structlog

from tocsin.api.auth.claims import checked_organisation
from tocsin.api.auth.oidc.client import OidcClient, shown_code
from tocsin.api.auth.oidc.errors import IssuerUnavailableError, NoRoleError, SignInRefusedError
from tocsin.api.auth.oidc.identity import Identity, oidc_producer
from tocsin.api.auth.oidc.pending import PendingSignIn
from tocsin.api.dashboard.responses import Redirect, View
from tocsin.api.dashboard.sessions import PATH, SESSION, VISITOR, make_cookie, open_session
from tocsin.api.dashboard.signing_in.form import oidc_of, own_path, sign_in_form
from tocsin.api.dashboard.signing_in.pending_cookies import (
    BegunSignIn,
    begun_cookies,
    find_begun,
    forget_begun,
    id_token_cookie,
    is_public_https,
)
from tocsin.api.http.problems import ProblemError
from tocsin.api.http.requests import ApiRequest
from tocsin.store import audit
from tocsin.store.dashboard_sessions import SessionOwner

CALLBACK = f"{PATH}/oidc/callback"
_LONGEST_PARAMETER = 8_192
_NOT_BEGUN = (
    "This sign-in was not begun in this browser, was finished already, or took longer than ten minutes. "
    "Sign in again."
)
_AWAY = "The issuer cannot be used at the moment. Retry, or sign in with an API key."
_NO_ROLE = "You are signed in as {name}, who has no role here. Ask whoever runs Tocsin for access."
_log = structlog.stdlib.get_logger(__name__)


class StartQuery(msgspec.Struct, frozen=True, kw_only=True):
    """The path to show next."""

    next: str = PATH


async def start(request: ApiRequest, query: StartQuery) -> View | Redirect:
    """Lead to the issuer; a cookie binds its answer to this browser."""
    next_path = own_path(query.next)
    begun = BegunSignIn(PendingSignIn.begin(), next_path)
    try:
        location = await _required_oidc(request).authorization_url(begun.pending)
    except IssuerUnavailableError:
        return sign_in_form(request, next_path, _AWAY, status=503)
    return Redirect(location, cookies=tuple(begun_cookies(request, begun)))


async def finish(request: ApiRequest) -> View:
    """Open a session for whom the issuer leads back, or show the form with the reason why not."""
    begun = find_begun(request, _parameter(request, "state") or "")
    if begun is None:
        return sign_in_form(request, PATH, _NOT_BEGUN)
    forget = (forget_begun(request, begun),)
    try:
        identity = await _identity(request, begun)
        owner = _owner(request, identity)
    except IssuerUnavailableError:
        return sign_in_form(request, begun.next_path, _AWAY, status=503, cookies=forget)
    except SignInRefusedError as error:
        _log.warning("oidc sign-in refused", reason=str(error))
        return sign_in_form(request, begun.next_path, str(error), cookies=forget)
    except NoRoleError as error:
        await _record_refusal(request, error.subject, error.name, "no_role")
        return sign_in_form(request, begun.next_path, _NO_ROLE.format(name=error.name), cookies=forget)
    except ProblemError as error:
        await _record_refusal(request, identity.subject, identity.name, error.problem.code)
        return sign_in_form(request, begun.next_path, error.problem.detail, cookies=forget)
    lasts = timedelta(hours=_required_oidc(request).settings.session_hours)
    session_id, seconds = await open_session(request.pool, owner, lasts), int(lasts.total_seconds())
    cookies = (
        make_cookie(request, SESSION, session_id, seconds, secure=is_public_https(request)),
        id_token_cookie(request, identity.id_token, seconds),
        make_cookie(request, VISITOR, "", 0),
        *forget,
    )
    # A page, not a redirect: browsers do not send the strict cookie on a way that began at another site.
    return View("entering.html", {"location": begun.next_path}, cookies=cookies)


async def _identity(request: ApiRequest, begun: BegunSignIn) -> Identity:
    if (error := _parameter(request, "error")) is not None:
        raise SignInRefusedError(f"The issuer did not sign you in ({shown_code(error)}).")
    code = _parameter(request, "code")
    if code is None:
        raise SignInRefusedError("The issuer sent no code.")
    return await _required_oidc(request).sign_in(code, begun.pending, _parameter(request, "iss"))


def _owner(request: ApiRequest, identity: Identity) -> SessionOwner:
    """Return whose session it will be; raise a problem if the organisation is needed and missing."""
    return SessionOwner(
        issuer=_required_oidc(request).issuer,
        subject=identity.subject,
        name=identity.name,
        role=identity.role,
        role_claim=_required_oidc(request).settings.role_claim,
        role_values=identity.role_values,
        org_id=checked_organisation(identity.claims, (identity.role,), request.services.auth),
    )


async def _record_refusal(request: ApiRequest, subject: str, name: str, reason: str) -> None:
    producer, settings = oidc_producer(subject), _required_oidc(request).settings
    _log.warning("oidc sign-in refused", reason=reason, producer=producer)
    async with request.pool.acquire() as connection:
        await audit.record(
            connection,
            actor=f"{producer} (signed in as {name})",
            action="session.refuse",
            subject=producer,
            details={"reason": reason, "issuer": settings.issuer, "role_claim": settings.role_claim},
        )


def _required_oidc(request: ApiRequest) -> OidcClient:
    oidc = oidc_of(request)
    if oidc is None:
        raise LookupError("the route needs an issuer")
    return oidc


def _parameter(request: ApiRequest, name: str) -> str | None:
    """Return a parameter of the redirect; issuers send further ones, which are ignored."""
    value: str | None = request.query_params.get(name)
    return value if value is not None and len(value) <= _LONGEST_PARAMETER else None
