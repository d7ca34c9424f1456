"""The OpenAPI document of the probe listeners; that of the API is served as `/openapi.json`."""

from collections.abc import Mapping
from typing import Any

import msgspec
from litestar import Litestar

from tocsin.api.app import ROUTES
from tocsin.api.openapi import openapi_document

PROBES = ("/healthz", "/readyz")


def probes_document() -> str:
    """Build the document of a process without an API, which answers its probes alone."""
    document = openapi_document(Litestar(ROUTES, openapi_config=None), {})
    paths = {path: document["paths"][path] for path in PROBES}
    tags = {tag for path in paths.values() for call in path.values() for tag in call["tags"]}
    return _text(
        document
        | {
            "info": document["info"] | {"title": "Tocsin: probes"},
            "tags": [tag for tag in document["tags"] if tag["name"] in tags],
            "paths": paths,
            "components": {"schemas": _used(paths, document["components"]["schemas"])},
        }
    )


def _used(content: Any, schemas: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schemas that some content refers to, directly or through others of them."""
    text = _text(content)
    found = {name: schema for name, schema in schemas.items() if f'"#/components/schemas/{name}"' in text}
    rest = {name: schema for name, schema in schemas.items() if name not in found}
    return found | _used(found, rest) if found else found


def _text(document: Any) -> str:
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n"
