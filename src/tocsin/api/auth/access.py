"""Authentication of the caller and authorization by route."""

from typing import Any, assert_never

from litestar import Request

from tocsin.api.auth.api_keys import PREFIX, KeyRing
from tocsin.api.auth.claims import holder_of
from tocsin.api.auth.holders import Holder
from tocsin.api.auth.jwks import KeySetUnreachableError
from tocsin.api.auth.roles import Right
from tocsin.api.auth.tokens import PersonTokens, TokenRefusedError, VerifiedToken
from tocsin.api.http.problems import (
    NO_ORGANISATION,
    NOT_ALLOWED,
    NOT_FOR_ORGANISATIONS,
    UNAUTHENTICATED,
    UNAVAILABLE,
    ProblemError,
)
from tocsin.api.routes import OPERATION, Operation, PersonToken, Public
from tocsin.api.settings import AuthSettings

_BEARER = "bearer "
_JWT_DOTS = 2
_MISSING = 'Bearer realm="tocsin"'
_REFUSED = 'Bearer realm="tocsin", error="invalid_token"'


class AccessControl:
    """Checks requests against the access of their operation; a route without an operation is closed."""

    def __init__(self, keys: KeyRing, tokens: PersonTokens, settings: AuthSettings) -> None:
        self._keys = keys
        self._tokens = tokens
        self._settings = settings

    async def check(self, request: Request[Any, Any, Any]) -> None:
        """Authenticate the caller and check their rights; raise a problem if they may not call."""
        operation: Operation | None = request.route_handler.opt.get(OPERATION)
        if operation is None:
            raise ProblemError(NOT_ALLOWED, "This route is closed.")
        access = operation.access
        match access:
            case Public():
                return
            case PersonToken():
                request.scope["user"] = await self._person(request)
            case Right():
                holder = await self._holder(request)
                if not holder.may(access):
                    raise ProblemError(NOT_ALLOWED, holder.lacks(access))
                if holder.org_id is not None and not operation.within_organisation:
                    detail = "The call is not for those who are bound to an organisation."
                    raise ProblemError(NOT_FOR_ORGANISATIONS, detail)
                request.scope["user"] = holder
            case _:
                assert_never(access)

    async def aclose(self) -> None:
        """Finish background tasks and close connections."""
        await self._keys.aclose()
        await self._tokens.aclose()

    async def _person(self, request: Request[Any, Any, Any]) -> VerifiedToken:
        token = _bearer(request)
        if token is None:
            raise _unauthenticated(_MISSING, "Send the person's token as `Authorization: Bearer <JWT>`.")
        if token.startswith(PREFIX):
            raise _unauthenticated(_MISSING, "This call is for a person's token; an API key was sent.")
        return await self._verified(token)

    async def _verified(self, token: str) -> VerifiedToken:
        try:
            return await self._tokens.verify(token)
        except TokenRefusedError as error:
            raise _unauthenticated(_REFUSED, str(error)) from None
        except KeySetUnreachableError as error:
            detail = "The keys that sign tokens cannot be fetched; retry."
            raise ProblemError(UNAVAILABLE, detail, headers={"Retry-After": "10"}) from error

    async def _holder(self, request: Request[Any, Any, Any]) -> Holder:
        secret = _bearer(request) or request.headers.get("x-api-key")
        if secret is None:
            raise _unauthenticated(_MISSING, f"Send the API key as `Authorization: Bearer {PREFIX}…`.")
        if secret.count(".") == _JWT_DOTS and not secret.startswith(PREFIX):
            if self._settings.role_claim is None:
                raise _unauthenticated(
                    _REFUSED, "This call is for an API key; a person's token (JWT) was sent."
                )
            return holder_of(await self._verified(secret), self._settings)
        holder = await self._keys.holder(secret)
        if holder is None:
            raise _unauthenticated(_REFUSED, "The API key is not known or was revoked.")
        if holder.org_id is not None and not self._settings.org_scoping:
            # Switching it off must not give anyone access to everything.
            detail = "The API key is bound to an organisation, and TOCSIN_AUTH__ORG_SCOPING is off."
            raise ProblemError(NO_ORGANISATION, detail)
        return holder


def _bearer(request: Request[Any, Any, Any]) -> str | None:
    authorization = request.headers.get("authorization", "")
    if authorization[: len(_BEARER)].lower() != _BEARER:
        return None
    return authorization[len(_BEARER) :].strip() or None


def _unauthenticated(challenge: str, detail: str) -> ProblemError:
    return ProblemError(UNAUTHENTICATED, detail, headers={"WWW-Authenticate": challenge})
