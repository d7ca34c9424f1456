"""The declaration of a route, used for access control, request decoding and the OpenAPI document.

A handler takes the request, the parameters of its path by name, and optionally `query` and `body`. Its
annotations are the only declaration of these types and of the answer.
"""

import re
from collections.abc import Awaitable, Callable, Mapping
from enum import StrEnum
from inspect import Parameter, signature
from typing import Any, Literal, TypeAlias, get_type_hints
from uuid import UUID

import msgspec
from litestar import Request
from litestar.enums import HttpMethod
from litestar.handlers import HTTPRouteHandler
from litestar.response.base import ASGIResponse
from litestar.types import Empty

from tocsin.api.auth.roles import Right
from tocsin.api.http.bodies import decode
from tocsin.api.http.encoded_slashes import path_text
from tocsin.api.http.problems import (
    BODY_TOO_LARGE,
    INVALID_BODY,
    INVALID_QUERY,
    MALFORMED_JSON,
    NOT_FOUND,
    ProblemError,
    ProblemType,
)
from tocsin.api.http.queries import read_query
from tocsin.api.http.replies import reply

OPERATION: Literal["operation"] = "operation"
JSON = "application/json"
# The limit on what a person's app sends; producers have `max_body_bytes` of the settings.
PERSON_BODY_BYTES = 65_536

Handler: TypeAlias = Callable[..., Awaitable[Any]]


class Tag(StrEnum):
    """The groups of calls in the OpenAPI document."""

    DEVICES = "devices"
    PREFERENCES = "preferences"
    INBOX = "inbox"
    RECEIPTS = "receipts"
    NOTIFICATIONS = "notifications"
    USERS = "users"
    DELIVERY = "delivery"
    ADMIN = "admin"
    PROBES = "probes"


class Public(msgspec.Struct, frozen=True):
    """Anyone may call it, without credentials."""


class PersonToken(msgspec.Struct, frozen=True):
    """A person may call it, with the token of their app."""


# A Right means: the holder of an API key may call it, if the key's role has the right.
Access: TypeAlias = Public | PersonToken | Right
PUBLIC, PERSON = Public(), PersonToken()


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """One call of the API: who may make it, its input, its answer and its problems."""

    tag: Tag
    summary: str
    access: Access
    status: int
    answer: Any
    answer_type: str
    body: Any
    body_type: str
    body_required: bool
    query: type[msgspec.Struct] | None
    headers: Mapping[str, str]
    problems: tuple[ProblemType, ...]
    example: Any
    within_organisation: bool


class Routes:
    """Declares the routes of one tag and collects their handlers."""

    def __init__(self, tag: Tag) -> None:
        self._tag = tag
        self.handlers: list[HTTPRouteHandler] = []

    def __call__(
        self,
        route: str,
        summary: str,
        access: Access,
        *,
        status: int = 200,
        problems: tuple[ProblemType, ...] = (),
        invalid: ProblemType = INVALID_BODY,
        headers: Mapping[str, str] | None = None,
        answer: Any = None,
        answer_type: str = JSON,
        body: Any = None,
        body_type: str = JSON,
        example: Any = None,
        max_body_bytes: int | None = None,
        within_organisation: bool = False,
    ) -> Callable[[Handler], HTTPRouteHandler]:
        """Declare a handler for a route such as `GET /v1/devices`.

        `answer` and `body` document the types of handlers that decode and encode by themselves. A call that
        is not `within_organisation` is refused to whoever is bound to one: those that are keep to it.
        """
        method, _, path = route.partition(" ")

        def declare(handler: Handler) -> HTTPRouteHandler:
            parts = Signature(handler, path)
            body_given = body if parts.body is None else parts.body.annotation
            operation = Operation(
                tag=self._tag,
                summary=summary,
                access=access,
                status=status,
                answer=parts.answer if answer is None else answer,
                answer_type=answer_type,
                body=body_given,
                body_type=body_type,
                body_required=parts.body is None or parts.body.default is Parameter.empty,
                query=parts.query,
                headers=headers or {},
                problems=(*problems, *_problems_of_input(parts, body_given, body_type, invalid)),
                example=example,
                within_organisation=within_organisation,
            )
            declared = HTTPRouteHandler(
                re.sub(r"{(\w+)}", r"{\1:str}", path),
                http_method=HttpMethod(method),
                status_code=status,
                opt={OPERATION: operation},
                request_max_body_size=max_body_bytes or (PERSON_BODY_BYTES if access is PERSON else Empty),
            )(_adapter(handler, parts, status))
            self.handlers.append(declared)
            return declared

        return declare


class Signature:
    """The inputs of a handler, by the names and annotations of its parameters."""

    def __init__(self, handler: Handler, path: str) -> None:
        hints = get_type_hints(handler, include_extras=True)
        parameters = {
            name: parameter.replace(annotation=hints[name])
            for name, parameter in signature(handler).parameters.items()
        }
        self.answer = hints["return"]
        self.body = parameters.get("body")
        self.query: type[msgspec.Struct] | None = hints.get("query")
        self.ids = [name for name, each in parameters.items() if each.annotation is UUID]
        self.texts = [
            name for name in re.findall(r"{(\w+)}", path) if name in parameters and name not in self.ids
        ]


def _problems_of_input(
    parts: Signature, body: Any, body_type: str, invalid: ProblemType
) -> tuple[ProblemType, ...]:
    found = [NOT_FOUND] if parts.ids else []
    if parts.query is not None:
        found.append(INVALID_QUERY)
    if body is not None:
        found += [BODY_TOO_LARGE, invalid] + ([MALFORMED_JSON] if body_type == JSON else [])
    return tuple(found)


def _adapter(handler: Handler, parts: Signature, status: int) -> Callable[..., Awaitable[ASGIResponse]]:
    """Build the function that Litestar calls: it decodes the inputs of a handler and encodes its answer."""

    async def handle(request: Request[Any, Any, Any]) -> ASGIResponse:
        inputs: dict[str, Any] = {name: path_text(request.path_params[name]) for name in parts.texts}
        for name in parts.ids:
            inputs[name] = path_id(request.path_params[name])
        if parts.query is not None:
            inputs["query"] = read_query(request, parts.query)
        if parts.body is not None:
            raw = await request.body()
            if raw or parts.body.default is Parameter.empty:
                inputs["body"] = decode(raw, parts.body.annotation)
        answer = await handler(request, **inputs)
        return answer if isinstance(answer, ASGIResponse) else reply(answer, status)

    return handle


def path_id(text: str) -> UUID:
    """Return the id that a part of a path is; raise a problem if it is none."""
    try:
        return UUID(text)
    except ValueError:
        raise ProblemError(NOT_FOUND, "There is nothing with such an id.") from None
