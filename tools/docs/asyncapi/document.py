"""One AsyncAPI document: a stream, the messages in it and their schemas."""

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any, Literal

import msgspec
import yaml

from tocsin.catalog.catalog import Catalog
from tocsin.catalog.load import load_catalog
from tools.docs.source import ROOT

NOTICE = "# Written by `python -m tools.docs`; change the code it is drawn from instead.\n"
CATALOG = ROOT / "examples" / "galaxy" / "catalog"
ENTRY = "application/x-redis-stream-entry"
"""Fields and values of an entry, in no order. Values are UTF-8 unless they are declared as binary."""

Schema = dict[str, Any]


class Stream(msgspec.Struct, frozen=True, kw_only=True):
    """A stream, and what Tocsin does with it."""

    name: str
    address: str
    title: str
    description: str
    action: Literal["send", "receive"]
    summary: str


def galaxy_catalog() -> Catalog:
    """Load the catalog that the documents describe."""
    return load_catalog(CATALOG)


def render(stream: Stream, messages: Mapping[str, Schema], schemas: Mapping[str, Schema]) -> str:
    """Build the document."""
    names = list(messages)
    channel = f"#/channels/{stream.name}"
    document = {
        "asyncapi": "3.0.0",
        "info": {
            "title": stream.title,
            "version": version("tocsin"),
            "description": stream.description,
            "license": {"name": "Apache-2.0"},
        },
        "defaultContentType": ENTRY,
        "channels": {
            stream.name: {
                "address": stream.address,
                "description": "A Redis stream.",
                "messages": {name: reference("messages", name) for name in names},
                "bindings": {"redis": {}},
            }
        },
        "operations": {
            stream.name: {
                "action": stream.action,
                "channel": {"$ref": channel},
                "summary": stream.summary,
                "messages": [{"$ref": f"{channel}/messages/{name}"} for name in names],
            }
        },
        "components": {"messages": dict(messages), "schemas": dict(schemas)},
    }
    return NOTICE + yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)


def reference(kind: str, name: str) -> Schema:
    """Return a reference to a component."""
    return {"$ref": f"#/components/{kind}/{name}"}


def struct_schemas(*types: type[msgspec.Struct]) -> dict[str, Schema]:
    """Build the schema of each struct as JSON Schema writes patterns; a default stands for what is absent."""
    _, components = msgspec.json.schema_components(types, ref_template="#/components/schemas/{name}")
    text = msgspec.json.encode(components).replace(rb"\\Z", b"$")
    # No text of UTF-8 has a surrogate, and many libraries do not take the pattern.
    built: dict[str, Schema] = msgspec.json.decode(text.replace(rb"\\ud800-\\udfff", b""))
    for schema in built.values():
        for field in schema["properties"].values():
            field.pop("default", None)
    return built


def message(entry: str, name: str, title: str, fields: Schema, example: Mapping[str, str]) -> Schema:
    """Describe the entries of one type: those of its model, with some fields narrowed."""
    narrowed = {"type": "object", "properties": fields}
    return {
        "name": name,
        "title": title,
        "contentType": ENTRY,
        "payload": {"allOf": [reference("schemas", entry), narrowed]},
        "examples": [{"payload": dict(example)}],
    }


def json_text(schema: Schema) -> Schema:
    """Describe a text that holds JSON."""
    return {"contentMediaType": "application/json", "contentSchema": schema}


def one_of(values: Sequence[str]) -> Schema:
    """Describe a text with one value or some."""
    return {"const": values[0]} if len(values) == 1 else {"enum": list(values)}


class _Dumper(yaml.SafeDumper):
    """Writes every value where it is used, without anchors."""

    def ignore_aliases(self, _: Any) -> bool:
        """Return that nothing is written as an alias."""
        return True
