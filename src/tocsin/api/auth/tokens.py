"""JWTs of people, signed with a shared secret or by an identity provider's keys."""

from datetime import timedelta
from typing import Any

import jwt
import msgspec

from tocsin.api.auth.jwks import KeySet
from tocsin.api.settings import AuthSettings
from tocsin.domain.intent import NumericUserId, UserId

LONGEST_TOKEN = 8_192


class TokenRefusedError(Exception):
    """A token is refused; the message has the reason and never the token."""


class PersonTokens:
    """Verifies tokens and returns their user."""

    def __init__(self, settings: AuthSettings, key_set: KeySet | None = None) -> None:
        self._settings = settings
        self._key_set = key_set
        if key_set is None and settings.jwks_url is not None:
            timeout = timedelta(seconds=settings.jwks_timeout_seconds)
            self._key_set = KeySet(settings.jwks_url, timeout=timeout)

    async def user_id(self, token: str) -> str:
        """Verify a token and return its user id."""
        if len(token) > LONGEST_TOKEN:
            raise TokenRefusedError(f"The token is longer than {LONGEST_TOKEN} characters.")
        try:
            header = jwt.get_unverified_header(token)
        except jwt.PyJWTError:
            raise TokenRefusedError("The token is not a JWT.") from None
        algorithm = str(header.get("alg"))
        key = await self._key(algorithm, header.get("kid"))
        claims = self._claims(token, algorithm, key)
        try:
            named = msgspec.convert(claims.get(self._settings.user_claim), UserId | NumericUserId)
        except msgspec.ValidationError:
            raise TokenRefusedError(
                f"The token's claim {self._settings.user_claim!r} does not hold a user id."
            ) from None
        return str(named)

    async def aclose(self) -> None:
        """Close the connection to the identity provider."""
        if self._key_set:
            await self._key_set.aclose()

    async def _key(self, algorithm: str, kid: str | None) -> Any:
        """Return the configured key for an algorithm; an algorithm without a key is refused."""
        if algorithm == "HS256" and self._settings.jwt_secret is not None:
            return self._settings.jwt_secret
        if algorithm in {"RS256", "ES256"} and self._key_set is not None:
            found = await self._key_set.find(kid, algorithm)
            if found is None:
                raise TokenRefusedError("The token is signed by a key that is not in the key set.")
            return found.key
        raise TokenRefusedError("The token is signed with an algorithm that is not accepted here.")

    def _claims(self, token: str, algorithm: str, key: Any) -> dict[str, Any]:
        settings = self._settings
        try:
            return jwt.decode(
                token,
                key=key,
                algorithms=[algorithm],
                issuer=settings.issuer,
                audience=settings.audience,
                leeway=settings.leeway_seconds,
                options={
                    "require": ["exp"],
                    "verify_aud": settings.audience is not None,
                    # Some applications put a number there; the user claim is checked by the caller.
                    "verify_sub": False,
                },
            )
        except jwt.ExpiredSignatureError:
            raise TokenRefusedError("The token has expired.") from None
        except jwt.PyJWTError as error:
            raise TokenRefusedError(f"The token is not valid: {error}.") from None
