"""JSON Schemas, compiled once, whose violations become faults with plain messages."""

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any, TypeAlias

import msgspec
from jsonschema_rs import Draft202012Validator, ValidationError, ValidationErrorKind

from tocsin.domain.faults import Fault

KeyPath: TypeAlias = tuple[str | int, ...]
"""The keys and indexes that lead to one value inside a JSON document."""

# Replaces the value in the library's messages, since a value may be long or private.
_MASK = "\N{SYMBOL FOR NULL}"
_SHOWN = 80

_TYPES = ("string", "integer", "number", "boolean", "array", "object", "null")
_META = Draft202012Validator(
    {"$ref": "https://json-schema.org/draft/2020-12/schema"}, mask=_MASK, offline=True
)


class SchemaViolation(msgspec.Struct, frozen=True):
    """One rule that a value breaks, and the key path of the value."""

    key_path: KeyPath
    code: str
    message: str


class Schema:
    """A compiled JSON Schema, draft 2020-12."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._validator = Draft202012Validator(
            dict(schema), mask=_MASK, offline=True, validate_formats=True, ignore_unknown_formats=False
        )

    def accepts(self, value: Any) -> bool:
        """Return whether a value satisfies the schema."""
        return self._validator.is_valid(value)

    def violations(self, value: Any) -> list[SchemaViolation]:
        """List every violation of the schema by a value."""
        if self._validator.is_valid(value):
            return []
        return [found for error in self._validator.iter_errors(value) for found in _violations(error)]

    def faults(self, root: str, value: Any) -> list[Fault]:
        """List violations as faults whose fields are paths below `root`, such as `payload.items[0].name`."""
        return [
            Fault(field=dotted(root, found.key_path), code=found.code, message=found.message)
            for found in self.violations(value)
        ]


def part_of(root: Mapping[str, Any], part: Any) -> Schema:
    """Compile a part of a dereferenced schema; only its recursive references are left."""
    return Schema({"allOf": [part], "$defs": root.get("$defs", {})})


def schema_violations(schema: Mapping[str, Any]) -> list[SchemaViolation]:
    """List what makes a schema invalid as a JSON Schema."""
    meta_violations = [found for error in _META.iter_errors(dict(schema)) for found in _violations(error)]
    if meta_violations:
        return [_type_violation(schema, found) for found in meta_violations]
    try:
        Schema(schema)
    except ValidationError as error:
        return list(_violations(error))
    return []


def _type_violation(schema: Mapping[str, Any], found: SchemaViolation) -> SchemaViolation:
    """Reword the violation by a `type` that does not exist: it is the only rule with alternatives."""
    if found.code != "any_of":
        return found
    value: Any = schema
    for step in found.key_path:
        value = value[step]
    unknown = [each for each in (value if isinstance(value, list) else [value]) if each not in _TYPES]
    if not unknown:
        return msgspec.structs.replace(
            found, message="a list of types has each of them once, and at least one"
        )
    nearest = get_close_matches(str(unknown[0]), _TYPES, n=1)
    guess = f"; did you mean {nearest[0]}?" if nearest else ""
    message = f"{_shown(unknown[0])} is not a type; types are {', '.join(_TYPES)}{guess}"
    return msgspec.structs.replace(found, message=message)


def dotted(root: str, key_path: KeyPath) -> str:
    """Format a key path below a root: `payload.items[0].name`."""
    return root + "".join(f"[{step}]" if isinstance(step, int) else f".{_clipped(step)}" for step in key_path)


def _violations(error: ValidationError) -> Iterator[SchemaViolation]:
    key_path = tuple(error.instance_path)
    match error.kind:
        case ValidationErrorKind.Required(property=name):
            yield SchemaViolation((*key_path, name), "missing", "is missing")
        case ValidationErrorKind.AdditionalProperties(unexpected=names):
            for name in names:
                yield SchemaViolation((*key_path, name), "unknown", "is not a known field")
        case ValidationErrorKind.PropertyNames(error=inner):
            for found in _violations(inner):
                yield SchemaViolation((*key_path, str(inner.instance)), "name", f"the name {found.message}")
        case ValidationErrorKind.Enum(options=options):
            allowed = ", ".join(str(option) for option in options)
            yield SchemaViolation(key_path, "enum", f"{_shown(error.instance)} is not one of: {allowed}")
        case ValidationErrorKind.Constant(expected_value=expected):
            yield SchemaViolation(key_path, "const", f"{_shown(error.instance)} is not {_shown(expected)}")
        case other:
            message = error.message.replace(_MASK, _shown(error.instance))
            yield SchemaViolation(key_path, _snake(other.name) or "schema", message)


def _shown(value: Any) -> str:
    match value:
        case dict():
            return "this object"
        case list():
            return "this list"
        case _:
            return _clipped(msgspec.json.encode(value).decode())


def _clipped(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"


def _snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)
