"""Verification of ID tokens (OpenID Connect Core 3.1.3.7)."""

from collections.abc import Mapping
from typing import Any

import jwt

from tocsin.api.auth.jwks import KeySet
from tocsin.api.auth.oidc.errors import SignInRefusedError
from tocsin.api.auth.oidc.pending import PendingSignIn

LONGEST_ID_TOKEN = 65_536
ALGORITHMS = frozenset({"RS256", "ES256"})
"""Those with a public key; `none` and shared secrets (HS256) are refused whatever the key set has."""


async def verify_id_token(
    token: str,
    keys: KeySet,
    pending: PendingSignIn,
    *,
    issuer: str,
    client_id: str,
    leeway_seconds: int,
) -> Mapping[str, Any]:
    """Return the claims of an ID token for this client and this sign-in; raise SignInRefusedError.

    Raises KeySetUnreachableError if the keys of the issuer cannot be fetched.
    """
    if len(token) > LONGEST_ID_TOKEN:
        raise SignInRefusedError(f"The ID token is longer than {LONGEST_ID_TOKEN} characters.")
    try:
        header = jwt.get_unverified_header(token)
    except jwt.PyJWTError:
        raise SignInRefusedError("The ID token is not a JWT.") from None
    algorithm, kid = str(header.get("alg")), header.get("kid")
    if algorithm not in ALGORITHMS:
        raise SignInRefusedError("The ID token is signed with an algorithm that is not accepted here.")
    key = await keys.find(kid, algorithm)
    if key is None:
        raise SignInRefusedError("The ID token is signed by a key that is not in the issuer's key set.")
    try:
        claims: dict[str, Any] = jwt.decode(
            token,
            key=key.key,
            algorithms=[algorithm],
            issuer=issuer,
            audience=client_id,
            leeway=leeway_seconds,
            options={"require": ["iss", "sub", "aud", "exp", "iat"]},
        )
    except jwt.PyJWTError as error:
        raise SignInRefusedError(f"The ID token is not valid: {_reason(error)}.") from None
    _check_authorized_party(claims, client_id)
    if not pending.is_nonce(claims.get("nonce")):
        raise SignInRefusedError("The ID token is of another sign-in (nonce).")
    return claims


def _check_authorized_party(claims: Mapping[str, Any], client_id: str) -> None:
    """Refuse a token that was issued to another client, even if this one is among its audiences."""
    audience, party = claims["aud"], claims.get("azp")
    is_shared = isinstance(audience, list) and len(audience) > 1
    if (party is None and is_shared) or (party is not None and party != client_id):
        raise SignInRefusedError("The ID token was issued to another client (azp).")


def _reason(error: jwt.PyJWTError) -> str:
    match error:
        case jwt.ExpiredSignatureError():
            return "it has expired; check the clocks"
        case jwt.ImmatureSignatureError():
            return "it is from the future; check the clocks"
        case jwt.InvalidAudienceError():
            return "it is for another client (aud)"
        case jwt.InvalidIssuerError():
            return "it is from another issuer (iss)"
        case jwt.InvalidSignatureError():
            return "its signature is wrong"
        case jwt.MissingRequiredClaimError():
            return f"it has no claim {error.claim}"
        case _:
            return type(error).__name__
