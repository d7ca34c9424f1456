"""The OpenAPI document, generated from the routes and the types of their handlers."""

import re
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from typing import Any

import msgspec
from litestar import Litestar
from litestar.routes import HTTPRoute

from tocsin.api.auth.roles import Right
from tocsin.api.http.problems import (
    INTERNAL_ERROR,
    MEDIA_TYPE,
    NO_ORGANISATION,
    NO_ROLE,
    NOT_ALLOWED,
    NOT_FOR_ORGANISATIONS,
    UNAUTHENTICATED,
    UNAVAILABLE,
    ProblemError,
    ProblemType,
)
from tocsin.api.routes import OPERATION, Access, Operation, PersonToken, Public
from tocsin.wire.problems import Problem

_REF = "#/components/schemas/{name}"
_SECURITY_SCHEMES = {
    "person": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"},
    "key": {"type": "http", "scheme": "bearer", "bearerFormat": "tocsin_…"},
    "token": {
        "type": "http",
        "scheme": "bearer",
        "bearerFormat": "JWT",
        "description": "A token of the identity provider with roles, if `auth.role_claim` is set.",
    },
    "key_header": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
}
# The security schemes that a caller can use, and the problems of all calls with that access.
_ACCESS: dict[type[Access], tuple[list[str], tuple[ProblemType, ...]]] = {
    Public: ([], (INTERNAL_ERROR,)),
    PersonToken: (["person"], (UNAUTHENTICATED, INTERNAL_ERROR, UNAVAILABLE)),
    Right: (
        ["key", "key_header", "token"],
        (UNAUTHENTICATED, NOT_ALLOWED, NO_ROLE, NO_ORGANISATION, INTERNAL_ERROR, UNAVAILABLE),
    ),
}


def openapi_document(app: Litestar, bodies: Mapping[Any, Any]) -> dict[str, Any]:
    """Describe every route of an app; `bodies` has the types that this app reads instead of the declared."""
    routes = [
        (path, method, msgspec.structs.replace(operation, body=bodies.get(operation.body, operation.body)))
        for path, method, operation in _operations(app)
    ]
    types = list(
        dict.fromkeys(
            each
            for _, _, operation in routes
            for each in (Problem, operation.body, operation.answer, *_query_types(operation).values())
            if each
        )
    )
    schemas, components = msgspec.json.schema_components(types, schema_hook=_raw_schema, ref_template=_REF)
    schema_of = dict(zip(types, schemas, strict=True))
    paths: dict[str, Any] = {}
    for path, method, operation in routes:
        paths.setdefault(path, {})[method] = _described(operation, path, schema_of)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Tocsin", "version": version("tocsin"), "license": {"name": "Apache-2.0"}},
        "tags": [{"name": tag} for tag in dict.fromkeys(operation.tag for _, _, operation in routes)],
        "paths": _with_ecma_patterns(paths),
        "components": {"schemas": _with_ecma_patterns(components), "securitySchemes": _SECURITY_SCHEMES},
    }


def _operations(app: Litestar) -> Iterator[tuple[str, str, Operation]]:
    for route in app.routes:
        if isinstance(route, HTTPRoute):
            for handler in route.route_handlers:
                operation = handler.opt.get(OPERATION)
                if operation is not None:
                    for method in sorted(handler.http_methods):
                        yield route.path_format, method.lower(), operation


def _raw_schema(type_: Any) -> dict[str, Any]:
    if type_ is msgspec.Raw:
        return {"description": "Any JSON value."}
    raise NotImplementedError(f"There is no schema for {type_!r}.")


def _with_ecma_patterns(schemas: dict[str, Any]) -> Any:
    r"""Convert `\Z`, the end of a pattern, to the `$` of JSON Schema's regular expressions."""
    return msgspec.json.decode(msgspec.json.encode(schemas).replace(rb"\\Z", b"$"))


def _described(operation: Operation, path: str, schema_of: dict[Any, Any]) -> dict[str, Any]:
    security, problems = _ACCESS[type(operation.access)]
    if isinstance(operation.access, Right) and not operation.within_organisation:
        problems += (NOT_FOR_ORGANISATIONS,)
    content = {operation.answer_type: {"schema": schema_of[operation.answer]}}
    described: dict[str, Any] = {
        "tags": [operation.tag],
        "summary": operation.summary,
        "security": [{scheme: []} for scheme in security],
        "responses": {str(operation.status): {"description": operation.summary, "content": content}}
        | _problems((*operation.problems, *problems), schema_of[Problem]),
    }
    if parameters := list(_parameters(operation, path, schema_of)):
        described["parameters"] = parameters
    if operation.body is not None:
        body = {"schema": schema_of[operation.body]}
        if operation.example is not None:
            body["example"] = operation.example
        described["requestBody"] = {
            "required": operation.body_required,
            "content": {operation.body_type: body},
        }
    return described


def _problems(problems: tuple[ProblemType, ...], schema: Any) -> dict[str, Any]:
    by_status: dict[int, list[ProblemType]] = {}
    for each in dict.fromkeys(problems):
        by_status.setdefault(each.status, []).append(each)
    return {
        str(status): {
            "description": " ".join(f"`{each.code}`: {each.meaning}" for each in same),
            "content": {MEDIA_TYPE: {"schema": schema, "examples": dict(map(_example, same))}},
        }
        for status, same in sorted(by_status.items())
    }


def _example(problem_type: ProblemType) -> tuple[str, dict[str, Any]]:
    problem = ProblemError(problem_type, problem_type.meaning).problem
    return problem.code, {"value": msgspec.to_builtins(problem)}


def _query_types(operation: Operation) -> dict[str, Any]:
    fields = msgspec.structs.fields(operation.query) if operation.query is not None else ()
    return {field.encode_name: field.type for field in fields}


def _parameters(operation: Operation, path: str, schema_of: dict[Any, Any]) -> Iterator[dict[str, Any]]:
    for name in re.findall(r"{(\w+)}", path):
        yield {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
    for name, description in operation.headers.items():
        yield {"name": name, "in": "header", "description": description, "schema": {"type": "string"}}
    for name, type_ in _query_types(operation).items():
        yield {"name": name, "in": "query", "schema": schema_of[type_]}
