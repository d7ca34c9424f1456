"""Entries of streams compared with the AsyncAPI documents of them."""

import json
from collections.abc import Mapping
from typing import Any

import jsonschema_rs


def accepts(document: Mapping[str, Any], payload: Any, entry: Mapping[str, str]) -> bool:
    """Return whether a schema of a document accepts an entry, and its texts that hold JSON."""
    rooted = {"allOf": [payload], "components": document["components"]}
    if not jsonschema_rs.validator_for(rooted).is_valid(entry):
        return False
    for part in payload.get("allOf", [payload]):
        for name, schema in resolved(document, part).get("properties", {}).items():
            if "contentSchema" not in schema or not entry.get(name):
                continue
            content = {"allOf": [schema["contentSchema"]], "components": document["components"]}
            try:
                value = json.loads(entry[name])
            except ValueError:
                return False
            if not jsonschema_rs.validator_for(content).is_valid(value):
                return False
    return True


def resolved(document: Mapping[str, Any], part: Any) -> Any:
    """Return what a part of a document refers to, or the part itself."""
    for key in part.get("$ref", "#").split("/")[1:]:
        document = document[key]
    return document if "$ref" in part else part
