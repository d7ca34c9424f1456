"""Google's token endpoint: a signed assertion in, an access token out."""

import secrets
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs

import jwt
import msgspec

from tocsin.sandbox.answers import Answer, json_answer
from tocsin.sandbox.fcm.accounts import Accounts, project_of

_GRANT_TYPE = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_GOOGLE_AUDIENCES = (
    "https://oauth2.googleapis.com/token",
    "https://www.googleapis.com/oauth2/v4/token",
    "https://accounts.google.com/o/oauth2/token",
)
_SCOPE_PREFIX = "https://www.googleapis.com/auth/"
_MESSAGING_SCOPES = frozenset({_SCOPE_PREFIX + "firebase.messaging", _SCOPE_PREFIX + "cloud-platform"})
_LONGEST_ASSERTION_SECONDS = 3_600
_CLOCK_SKEW_SECONDS = 60


class Access(msgspec.Struct, frozen=True):
    """What an access token opens, until when on the Unix clock."""

    project: str
    may_send: bool
    expires_at: float


class TokenEndpoint:
    """Issues access tokens to the sandbox's accounts and knows those still valid."""

    def __init__(
        self, accounts: Accounts, *, lifetime_seconds: int, clock: Callable[[], float] = time.time
    ) -> None:
        self._accounts = accounts
        self._lifetime_seconds = lifetime_seconds
        self._clock = clock
        self._issued: dict[str, Access] = {}

    def grant(self, body: bytes, own_addresses: tuple[str, ...]) -> Answer:
        """Answer a token request."""
        form = parse_qs(body.decode(errors="replace"))
        if form.get("grant_type") != [_GRANT_TYPE]:
            return _refused(
                "unsupported_grant_type", f"Invalid grant_type: {''.join(form.get('grant_type', []))}"
            )
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
            right = own_addresses[0]
            return _refused(
                "invalid_grant", f"Invalid JWT: Failed audience check. The right audience is {right}"
            )
        except (jwt.ExpiredSignatureError, jwt.ImmatureSignatureError, jwt.MissingRequiredClaimError):
            return _bad_times()
        except jwt.InvalidTokenError:
            return _refused("invalid_grant", "Invalid JWT Signature.")
        return self._issue(claims)

    def access(self, token: str) -> Access | None:
        """Tell what a token opens, if it is still valid."""
        access = self._issued.get(token)
        return access if access and self._clock() < access.expires_at else None

    def revoke_all(self) -> None:
        """Make every access token issued so far invalid."""
        self._issued.clear()

    def _issue(self, claims: dict[str, Any]) -> Answer:
        if claims["exp"] - claims["iat"] > _LONGEST_ASSERTION_SECONDS:
            return _bad_times()
        project = project_of(str(claims["iss"]))
        if project is None:
            return _refused("invalid_grant", "Invalid grant: account not found")
        scopes = str(claims.get("scope", "")).split()
        if not scopes or not all(scope.startswith(_SCOPE_PREFIX) for scope in scopes):
            return _refused("invalid_scope", "Invalid OAuth scope or ID token audience provided.")
        token = "ya29.sandbox-" + secrets.token_urlsafe(32)
        expires_at = self._clock() + self._lifetime_seconds
        self._forget_expired()
        self._issued[token] = Access(project, not _MESSAGING_SCOPES.isdisjoint(scopes), expires_at)
        body = {"access_token": token, "expires_in": self._lifetime_seconds, "token_type": "Bearer"}
        return json_answer(body, code="token")

    def _forget_expired(self) -> None:
        now = self._clock()
        self._issued = {token: access for token, access in self._issued.items() if access.expires_at > now}


def _bad_times() -> Answer:
    text = (
        "Invalid JWT: Token must be a short-lived token (60 minutes) and in a reasonable timeframe. "
        "Check your iat and exp values in the JWT claim."
    )
    return _refused("invalid_grant", text)


def _refused(error: str, description: str) -> Answer:
    return json_answer({"error": error, "error_description": description}, status=400, code=error)
