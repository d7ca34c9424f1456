"""JWTs, signed with a shared secret or by an identity provider's keys."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

import jwt
import msgspec

from tocsin.api.auth.jwks import KeySet
from tocsin.api.settings import AuthSettings
from tocsin.domain.intent import NumericUserId, UserId

LONGEST_TOKEN = 8_192


class TokenRefusedError(Exception):
    """A token is refused; the message has the reason and never the token."""


class VerifiedToken(NamedTuple):
    """Whose token it is, and everything that it claims."""

    user_id: str
    claims: Mapping[str, Any]


class PersonTokens:
    """Verifies tokens and returns what they claim."""

    def __init__(self, settings: AuthSettings, key_set: KeySet | None = None) -> None:
        self._settings = settings
        self._key_set = key_set
        if key_set is None and settings.jwks_url is not None:
            timeout = timedelta(seconds=settings.jwks_timeout_seconds)
            self._key_set = KeySet(settings.jwks_url, timeout=timeout)

    async def verify(self, token: str) -> VerifiedToken:
        """Verify a token and return what it says."""
        if len(token) > LONGEST_TOKEN:
            raise TokenRefusedError(f"The token is longer than {LONGEST_TOKEN} characters.")
        try:
            header = jwt.get_unverified_header(token)
        except jwt.PyJWTError:
            raise TokenRefusedError("The token is not a JWT.") from None
        algorithm = str(header.get("alg"))
        claims = self._verify(token, algorithm, await self._keys(algorithm, header.get("kid")))
        try:
            named = msgspec.convert(claims.get(self._settings.user_claim), UserId | NumericUserId)
        except msgspec.ValidationError:
            raise TokenRefusedError(
                f"The token's claim {self._settings.user_claim!r} does not hold a user id."
            ) from None
        return VerifiedToken(str(named), claims)

    async def aclose(self) -> None:
        """Close the connection to the identity provider."""
        if self._key_set:
            await self._key_set.aclose()

    async def _keys(self, algorithm: str, kid: str | None) -> Sequence[Any]:
        """List the configured keys for an algorithm; an algorithm without a key is refused."""
        if algorithm == "HS256" and self._settings.jwt_secret is not None:
            previous = self._settings.jwt_secret_previous
            return [self._settings.jwt_secret] if previous is None else [self._settings.jwt_secret, previous]
        if algorithm in {"RS256", "ES256"} and self._key_set is not None:
            found = await self._key_set.find(kid, algorithm)
            if found is None:
                raise TokenRefusedError("The token is signed by a key that is not in the key set.")
            return [found.key]
        raise TokenRefusedError("The token is signed with an algorithm that is not accepted here.")

    def _verify(self, token: str, algorithm: str, keys: Sequence[Any]) -> dict[str, Any]:
        """Return the claims of a token that one of the keys signed."""
        for key in keys:
            try:
                return self._claims(token, algorithm, key)
            except jwt.InvalidSignatureError:
                continue
            except jwt.ExpiredSignatureError:
                raise TokenRefusedError("The token has expired.") from None
            except jwt.PyJWTError as error:
                raise TokenRefusedError(f"The token is not valid: {error}.") from None
        raise TokenRefusedError("The token is not valid: Signature verification failed.")

    def _claims(self, token: str, algorithm: str, key: Any) -> dict[str, Any]:
        settings = self._settings
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
