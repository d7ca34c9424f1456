"""The JSON Schema of the envelope of fisa."""

from typing import Any

import msgspec

from tocsin.wire.fisa.envelope import FisaEnvelope
from tools.docs.asyncapi.document import struct_schemas

DRAFT = "https://json-schema.org/draft/2020-12/schema"


def envelope_schema() -> str:
    """Build the schema, with the rule that msgspec does not write: a title or a body."""
    [schema] = struct_schemas(FisaEnvelope).values()
    document = {"$schema": DRAFT, **schema, "anyOf": [_filled("title"), _filled("body")]}
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n"


def _filled(name: str) -> dict[str, Any]:
    return {"required": [name], "properties": {name: {"type": "string", "minLength": 1}}}
