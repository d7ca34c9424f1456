"""The OpenAPI document, drawn from the routes and the operations they declare."""

import re
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from typing import Any, assert_never

import msgspec
from litestar import Litestar
from litestar.routes import HTTPRoute

from tocsin.api.http.problems import (
    INTERNAL_ERROR,
    MEDIA_TYPE,
    NOT_ALLOWED,
    UNAUTHENTICATED,
    UNAVAILABLE,
    Kind,
    Problem,
)
from tocsin.api.operations import OPERATION, Access, AnyoneMay, KeyMay, Operation, PersonMay

_REF = "#/components/schemas/{name}"


def openapi_document(app: Litestar, bodies: Mapping[Any, Any]) -> dict[str, Any]:
    """Describe every route of an app; `bodies` has the types that this app reads instead of the declared."""
    routes = [
        (path, method, msgspec.structs.replace(operation, body=bodies.get(operation.body, operation.body)))
        for path, method, operation in _operations(app)
    ]
    types = [Problem, *dict.fromkeys(kind for _, _, operation in routes for kind in _types(operation))]
    schemas, components = msgspec.json.schema_components(types, schema_hook=_schema_of_raw, ref_template=_REF)
    schema_of = dict(zip(types, schemas, strict=True))
    paths: dict[str, Any] = {}
    for path, method, operation in routes:
        paths.setdefault(path, {})[method] = _operation(operation, path, schema_of)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Tocsin", "version": version("tocsin"), "license": {"name": "Apache-2.0"}},
        "tags": [{"name": tag} for tag in dict.fromkeys(operation.tag for _, _, operation in routes)],
        "paths": paths,
        "components": {
            "schemas": _with_ecma_patterns(components),
            "securitySchemes": {
                "person": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"},
                "key": {"type": "http", "scheme": "bearer", "bearerFormat": "tocsin_…"},
                "key_header": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
            },
        },
    }


def _operations(app: Litestar) -> Iterator[tuple[str, str, Operation]]:
    for route in app.routes:
        if isinstance(route, HTTPRoute):
            for handler in route.route_handlers:
                operation = handler.opt.get(OPERATION)
                if operation is not None:
                    for method in sorted(handler.http_methods):
                        yield route.path_format, method.lower(), operation


def _types(operation: Operation) -> Iterator[Any]:
    if operation.body is not None:
        yield operation.body
    yield from operation.answers.values()


def _schema_of_raw(kind: Any) -> dict[str, Any]:
    if kind is msgspec.Raw:
        return {"description": "Any JSON value."}
    raise NotImplementedError(f"There is no schema for {kind!r}.")


def _with_ecma_patterns(schema: Any) -> Any:
    """Write the end of a pattern as JSON Schema's regular expressions do."""
    if isinstance(schema, dict):
        return {
            name: inner.replace(r"\Z", "$")
            if name == "pattern" and isinstance(inner, str)
            else _with_ecma_patterns(inner)
            for name, inner in schema.items()
        }
    if isinstance(schema, list):
        return [_with_ecma_patterns(inner) for inner in schema]
    return schema


def _operation(operation: Operation, path: str, schema_of: dict[Any, Any]) -> dict[str, Any]:
    drawn: dict[str, Any] = {
        "tags": [operation.tag],
        "summary": operation.summary,
        "security": _security(operation.access),
        "responses": {
            str(status): {
                "description": operation.summary,
                "content": {operation.answer_type: {"schema": schema_of[kind]}},
            }
            for status, kind in operation.answers.items()
        }
        | _problems(operation, schema_of[Problem]),
    }
    if parameters := list(_parameters(operation, path)):
        drawn["parameters"] = parameters
    if operation.body is not None:
        content = {"schema": schema_of[operation.body]}
        if operation.example is not None:
            content["example"] = operation.example
        drawn["requestBody"] = {"required": True, "content": {operation.body_type: content}}
    return drawn


def _security(access: Access) -> list[dict[str, list[str]]]:
    match access:
        case AnyoneMay():
            return []
        case PersonMay():
            return [{"person": []}]
        case KeyMay():
            return [{"key": []}, {"key_header": []}]
        case _:
            assert_never(access)


def _problems(operation: Operation, schema: Any) -> dict[str, Any]:
    by_status: dict[int, list[Kind]] = {}
    for kind in (*operation.problems, *_problems_of_access(operation.access)):
        by_status.setdefault(kind.status, []).append(kind)
    return {
        str(status): {
            "description": " ".join(f"`{kind.code}`: {kind.meaning}" for kind in kinds),
            "content": {MEDIA_TYPE: {"schema": schema, "examples": {k.code: _example(k) for k in kinds}}},
        }
        for status, kinds in sorted(by_status.items())
    }


def _problems_of_access(access: Access) -> tuple[Kind, ...]:
    match access:
        case AnyoneMay():
            return (INTERNAL_ERROR,)
        case PersonMay():
            return (UNAUTHENTICATED, INTERNAL_ERROR, UNAVAILABLE)
        case KeyMay():
            return (UNAUTHENTICATED, NOT_ALLOWED, INTERNAL_ERROR, UNAVAILABLE)
        case _:
            assert_never(access)


def _example(kind: Kind) -> dict[str, Any]:
    problem = Problem(code=kind.code, title=kind.title, status=kind.status, detail=kind.meaning)
    return {"value": msgspec.to_builtins(problem)}


def _parameters(operation: Operation, path: str) -> Iterator[dict[str, Any]]:
    for name in re.findall(r"{(\w+)}", path):
        yield {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
    for name, description in operation.headers.items():
        yield {"name": name, "in": "header", "description": description, "schema": {"type": "string"}}
    if operation.query is not None:
        for field in msgspec.structs.fields(operation.query):
            yield {"name": field.encode_name, "in": "query", "schema": msgspec.json.schema(field.type)}
