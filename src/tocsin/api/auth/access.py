"""Authentication of the caller and authorization by route."""

from typing import Any, assert_never

from litestar import Request

from tocsin.api.auth.api_keys import PREFIX, KeyHolder, KeyRing
from tocsin.api.auth.jwks import KeySetUnreachableError
from tocsin.api.auth.roles import Right
from tocsin.api.auth.tokens import PersonTokens, TokenRefusedError
from tocsin.api.http.problems import NOT_ALLOWED, UNAUTHENTICATED, UNAVAILABLE, ProblemError
from tocsin.api.routes import OPERATION, Operation, PersonToken, Public

_BEARER = "bearer "
_JWT_DOTS = 2
_MISSING = 'Bearer realm="tocsin"'
_REFUSED = 'Bearer realm="tocsin", error="invalid_token"'


class AccessControl:
    """Checks requests against the access of their operation; a route without an operation is closed."""

    def __init__(self, keys: KeyRing, tokens: PersonTokens) -> None:
        self._keys = keys
        self._tokens = tokens

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
                    raise ProblemError(NOT_ALLOWED, f"A key with the role {holder.role} may not {access}.")
                request.scope["user"] = holder
            case _:
                assert_never(access)

    async def aclose(self) -> None:
        """Finish background tasks and close connections."""
        await self._keys.aclose()
        await self._tokens.aclose()

    async def _person(self, request: Request[Any, Any, Any]) -> str:
        token = _bearer(request)
        if token is None:
            raise _unauthenticated(_MISSING, "Send the person's token as `Authorization: Bearer <JWT>`.")
        if token.startswith(PREFIX):
            raise _unauthenticated(_MISSING, "This call is for a person's token; an API key was sent.")
        try:
            return await self._tokens.user_id(token)
        except TokenRefusedError as error:
            raise _unauthenticated(_REFUSED, str(error)) from None
        except KeySetUnreachableError as error:
            detail = "The keys that sign people's tokens cannot be fetched; retry."
            raise ProblemError(UNAVAILABLE, detail, headers={"Retry-After": "10"}) from error

    async def _holder(self, request: Request[Any, Any, Any]) -> KeyHolder:
        secret = _bearer(request) or request.headers.get("x-api-key")
        if secret is None:
            raise _unauthenticated(_MISSING, f"Send the API key as `Authorization: Bearer {PREFIX}…`.")
        if secret.count(".") == _JWT_DOTS and not secret.startswith(PREFIX):
            raise _unauthenticated(_REFUSED, "This call is for an API key; a person's token (JWT) was sent.")
        holder = await self._keys.holder(secret)
        if holder is None:
            raise _unauthenticated(_REFUSED, "The API key is not known or was revoked.")
        return holder


def _bearer(request: Request[Any, Any, Any]) -> str | None:
    authorization = request.headers.get("authorization", "")
    if authorization[: len(_BEARER)].lower() != _BEARER:
        return None
    return authorization[len(_BEARER) :].strip() or None


def _unauthenticated(challenge: str, detail: str) -> ProblemError:
    return ProblemError(UNAUTHENTICATED, detail, headers={"WWW-Authenticate": challenge})
