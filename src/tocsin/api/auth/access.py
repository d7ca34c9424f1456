"""The gate: who is asking, and whether they may."""

from typing import Any, assert_never

from litestar import Request

from tocsin.api.auth.api_keys import PREFIX, KeyHolder, KeyRing
from tocsin.api.auth.jwks import KeySetUnreachableError
from tocsin.api.auth.tokens import PersonTokens, TokenRefusedError
from tocsin.api.http.problems import NOT_ALLOWED, UNAUTHENTICATED, UNAVAILABLE, ProblemError
from tocsin.api.operations import OPERATION, AnyoneMay, KeyMay, Operation, PersonMay

_BEARER = "bearer "
_MISSING = 'Bearer realm="tocsin"'
_REFUSED = 'Bearer realm="tocsin", error="invalid_token"'


class Gate:
    """Admits a request by what its operation declares; a route that declares nothing is closed."""

    def __init__(self, keys: KeyRing, tokens: PersonTokens) -> None:
        self._keys = keys
        self._tokens = tokens

    async def admit(self, request: Request[Any, Any, Any]) -> None:
        """Find out who asks and let the request through, or end it."""
        operation: Operation | None = request.route_handler.opt.get(OPERATION)
        if operation is None:
            raise ProblemError(NOT_ALLOWED, "Nobody may call this.")
        access = operation.access
        match access:
            case AnyoneMay():
                return
            case PersonMay():
                request.scope["user"] = await self._person(request)
            case KeyMay(right=right):
                holder = await self._holder(request)
                if not holder.may(right):
                    raise ProblemError(NOT_ALLOWED, f"A key with the role {holder.role} may not {right}.")
                request.scope["user"] = holder
            case _:
                assert_never(access)

    async def aclose(self) -> None:
        """Finish what runs in the background."""
        await self._keys.aclose()
        await self._tokens.aclose()

    async def _person(self, request: Request[Any, Any, Any]) -> str:
        token = _bearer(request)
        if token is None:
            raise _unknown(_MISSING, "Send the person's token as `Authorization: Bearer <JWT>`.")
        if token.startswith(PREFIX):
            raise _unknown(_MISSING, "This call is for a person's token; an API key was sent.")
        try:
            return await self._tokens.user_id(token)
        except TokenRefusedError as error:
            raise _unknown(_REFUSED, str(error)) from None
        except KeySetUnreachableError as error:
            detail = "The keys that sign people's tokens cannot be fetched; try again."
            raise ProblemError(UNAVAILABLE, detail, headers={"Retry-After": "10"}) from error

    async def _holder(self, request: Request[Any, Any, Any]) -> KeyHolder:
        secret = _bearer(request) or request.headers.get("x-api-key")
        if secret is None:
            raise _unknown(_MISSING, f"Send the API key as `Authorization: Bearer {PREFIX}…`.")
        holder = await self._keys.holder(secret)
        if holder is None:
            raise _unknown(_REFUSED, "The API key is not known or was revoked.")
        return holder


def person_of(request: Request[Any, Any, Any]) -> str:
    """Give the user id of the person the gate admitted."""
    user: str = request.scope["user"]
    return user


def holder_of(request: Request[Any, Any, Any]) -> KeyHolder:
    """Give the key holder the gate admitted."""
    holder: KeyHolder = request.scope["user"]
    return holder


def _bearer(request: Request[Any, Any, Any]) -> str | None:
    authorization = request.headers.get("authorization", "")
    if authorization[: len(_BEARER)].lower() != _BEARER:
        return None
    return authorization[len(_BEARER) :].strip() or None


def _unknown(challenge: str, detail: str) -> ProblemError:
    return ProblemError(UNAUTHENTICATED, detail, headers={"WWW-Authenticate": challenge})
