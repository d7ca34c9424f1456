"""Cookies of signing in with OpenID Connect: one for each sign-in that has begun, and one with the ID token.

What a sign-in needs when the issuer leads back is kept by the browser alone, so that strangers who begin one
store nothing here, and any process can finish it.
"""

import base64
import binascii
from collections.abc import Iterator
from typing import NamedTuple

from litestar.datastructures import Cookie

from tocsin.api.auth.oidc.pending import PendingSignIn
from tocsin.api.dashboard.sessions import PATH, cookie_name, make_cookie
from tocsin.api.dashboard.signing_in.form import LONGEST_NEXT, own_path, public_origin
from tocsin.api.http.requests import ApiRequest

PENDING_SECONDS = 600
MOST_PENDING = 5
ID_TOKEN = "tocsin_id_token"  # noqa: S105 - the name of a cookie
_SIGN_OUT = f"{PATH}/sign-out"
_LONGEST_ID_TOKEN = 3_500  # browsers keep 4,096 bytes of a cookie
_LONGEST_VALUE = 200 + 2 * LONGEST_NEXT
_NAMED = 16


class BegunSignIn(NamedTuple):
    """A sign-in that this browser has begun, and the path to show after it."""

    pending: PendingSignIn
    next_path: str


def is_public_https(request: ApiRequest) -> bool:
    """Return whether browsers reach the dashboard by HTTPS, as the settings have it."""
    return public_origin(request).startswith("https://")


def begun_cookies(request: ApiRequest, begun: BegunSignIn) -> Iterator[Cookie]:
    """Build the cookie of a sign-in that begins, and those that delete the oldest of too many."""
    encoded = base64.urlsafe_b64encode(begun.next_path.encode()).rstrip(b"=").decode()
    yield _cookie(request, begun.pending.state, f"{begun.pending.secret}.{encoded}", PENDING_SECONDS)
    prefix = _prefix(request)
    old = [name for name in request.cookies if name.startswith(prefix)]
    for name in old[: max(0, len(old) - MOST_PENDING + 1)]:
        yield _cookie(request, name.removeprefix(prefix), "", 0)


def find_begun(request: ApiRequest, state: str) -> BegunSignIn | None:
    """Return the sign-in of a state, if this browser has begun it."""
    value = request.cookies.get(_prefix(request) + state[:_NAMED], "")
    if not state or not value.isascii() or len(value) > _LONGEST_VALUE:
        return None
    secret, _, encoded = value.partition(".")
    pending = PendingSignIn(secret)
    if not secret or not pending.is_state(state):
        return None
    try:
        next_path = base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)).decode()
    except (binascii.Error, UnicodeDecodeError):
        next_path = PATH
    return BegunSignIn(pending, own_path(next_path))


def forget_begun(request: ApiRequest, begun: BegunSignIn) -> Cookie:
    """Build the cookie that ends a sign-in: its state is accepted once."""
    return _cookie(request, begun.pending.state, "", 0)


def id_token_cookie(request: ApiRequest, token: str, seconds: int) -> Cookie:
    """Build the cookie with the ID token, which the issuer asks for when somebody signs out.

    It is sent with that request alone. One that is too long for a cookie is left out.
    """
    kept = token if len(token) <= _LONGEST_ID_TOKEN else ""
    return make_cookie(
        request, ID_TOKEN, kept, seconds if kept else 0, _SIGN_OUT, secure=is_public_https(request)
    )


def kept_id_token(request: ApiRequest) -> str | None:
    """Return the ID token of the cookie, if the browser has sent it."""
    value = request.cookies.get(cookie_name(request, ID_TOKEN), "")
    return value if 0 < len(value) <= _LONGEST_ID_TOKEN and value.isascii() else None


def _prefix(request: ApiRequest) -> str:
    # With this prefix browsers let no other host of the domain set the cookie.
    name = "__Host-tocsin_oidc" if is_public_https(request) else "tocsin_oidc"
    return f"{cookie_name(request, name)}_"


def _cookie(request: ApiRequest, state: str, value: str, seconds: int) -> Cookie:
    is_https = is_public_https(request)
    return Cookie(
        _prefix(request) + state[:_NAMED],
        path="/" if is_https else f"{PATH}/oidc",
        value=value,
        max_age=seconds,
        httponly=True,
        # The issuer leads back from another site, and a strict cookie would not be sent then.
        samesite="lax",
        secure=is_https,
    )
