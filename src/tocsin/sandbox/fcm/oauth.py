"""Google's token endpoint, which exchanges a signed assertion for an access token."""

import secrets
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs

import jwt
import msgspec

from tocsin.sandbox.fcm.accounts import Accounts, project_of
from tocsin.sandbox.responses import Response, json_response

_GRANT_TYPE = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_GOOGLE_AUDIENCES = (
    "https://oauth2.googleapis.com/token",
    "https://www.googleapis.com/oauth2/v4/token",
    "https://accounts.google.com/o/oauth2/token",
)
BEARER = "Bearer "
_SCOPE_PREFIX = "https://www.googleapis.com/auth/"
_MESSAGING_SCOPES = frozenset({_SCOPE_PREFIX + "firebase.messaging", _SCOPE_PREFIX + "cloud-platform"})
_LONGEST_ASSERTION_SECONDS = 3_600
_CLOCK_SKEW_SECONDS = 60
_BAD_TIMES = (
    "Invalid JWT: Token must be a short-lived token (60 minutes) and in a reasonable timeframe. "
    "Check your iat and exp values in the JWT claim."
)


class Access(msgspec.Struct, frozen=True):
    """What an access token allows, until when on the Unix clock."""

    project: str
    may_send: bool
    expires_at: float


class TokenEndpoint:
    """Issues access tokens to the sandbox's accounts and checks them."""

    def __init__(
        self, accounts: Accounts, *, lifetime_seconds: int, clock: Callable[[], float] = time.time
    ) -> None:
        self._accounts = accounts
        self._lifetime_seconds = lifetime_seconds
        self._clock = clock
        self._issued: dict[str, Access] = {}
        """What tokens allow, by the header that they are sent in."""

    def grant(self, body: bytes, own_addresses: tuple[str, ...]) -> Response:
        """Answer a token request."""
        form = parse_qs(body.decode(errors="replace"))
        grant_type = "".join(form.get("grant_type", []))
        if grant_type != _GRANT_TYPE:
            return _refused("unsupported_grant_type", f"Invalid grant_type: {grant_type}")
        try:
            claims = jwt.decode(
                form.get("assertion", [""])[0],
                self._accounts.public_key,
                algorithms=["RS256"],
                audience=[*_GOOGLE_AUDIENCES, *own_addresses],
                leeway=_CLOCK_SKEW_SECONDS,
                options={"require": ["iss", "aud", "iat", "exp"]},
            )
        except jwt.InvalidAudienceError:
            text = f"Invalid JWT: Failed audience check. The right audience is {own_addresses[0]}"
            return _refused("invalid_grant", text)
        except (jwt.ExpiredSignatureError, jwt.ImmatureSignatureError, jwt.MissingRequiredClaimError):
            return _refused("invalid_grant", _BAD_TIMES)
        except jwt.InvalidTokenError:
            return _refused("invalid_grant", "Invalid JWT Signature.")
        return self._issue(claims)

    def access(self, authorization: str) -> Access | None:
        """Return what the token in a header of this value allows, if it is still valid."""
        access = self._issued.get(authorization)
        return access if access and self._clock() < access.expires_at else None

    def revoke_all(self) -> None:
        """Make every access token issued so far invalid."""
        self._issued.clear()

    def _issue(self, claims: dict[str, Any]) -> Response:
        if claims["exp"] - claims["iat"] > _LONGEST_ASSERTION_SECONDS:
            return _refused("invalid_grant", _BAD_TIMES)
        project = project_of(str(claims["iss"]))
        if project is None:
            return _refused("invalid_grant", "Invalid grant: account not found")
        scopes = str(claims.get("scope", "")).split()
        if not scopes or not all(scope.startswith(_SCOPE_PREFIX) for scope in scopes):
            return _refused("invalid_scope", "Invalid OAuth scope or ID token audience provided.")
        now = self._clock()
        token = "ya29.sandbox-" + secrets.token_urlsafe(32)
        self._issued = {header: access for header, access in self._issued.items() if access.expires_at > now}
        may_send = not _MESSAGING_SCOPES.isdisjoint(scopes)
        self._issued[BEARER + token] = Access(project, may_send, now + self._lifetime_seconds)
        body = {"access_token": token, "expires_in": self._lifetime_seconds, "token_type": "Bearer"}
        return json_response(body, code="token")


def _refused(error: str, description: str) -> Response:
    return json_response({"error": error, "error_description": description}, status=400, code=error)
