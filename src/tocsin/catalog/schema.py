"""JSON Schemas, compiled once, whose complaints are plain faults."""

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import msgspec
from jsonschema_rs import Draft202012Validator, ValidationError, ValidationErrorKind

from tocsin.domain.faults import Fault

Place: TypeAlias = tuple[str | int, ...]

# Stands in the library's messages where it would show the value, which may be long or private.
_MASK = "\N{SYMBOL FOR NULL}"
_SHOWN = 80

_META = Draft202012Validator(
    {"$ref": "https://json-schema.org/draft/2020-12/schema"}, mask=_MASK, offline=True
)


class Complaint(msgspec.Struct, frozen=True):
    """What a schema has against one place in a value."""

    place: Place
    code: str
    message: str


class Schema:
    """A compiled JSON Schema, draft 2020-12."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._validator = Draft202012Validator(
            dict(schema), mask=_MASK, offline=True, validate_formats=True, ignore_unknown_formats=False
        )

    def accepts(self, value: Any) -> bool:
        """Whether the value is as declared."""
        return self._validator.is_valid(value)

    def complaints(self, value: Any) -> list[Complaint]:
        """Everything the schema has against a value."""
        if self._validator.is_valid(value):
            return []
        return [found for error in self._validator.iter_errors(value) for found in _complaints(error)]

    def faults(self, root: str, value: Any) -> list[Fault]:
        """Name everything wrong by its field, below a root such as `payload`."""
        return [
            Fault(field=dotted(root, found.place), code=found.code, message=found.message)
            for found in self.complaints(value)
        ]


def schema_complaints(schema: Mapping[str, Any]) -> list[Complaint]:
    """Everything wrong with a schema itself."""
    against_meta = [found for error in _META.iter_errors(dict(schema)) for found in _complaints(error)]
    if against_meta:
        return against_meta
    try:
        Schema(schema)
    except ValidationError as error:
        return list(_complaints(error))
    return []


def dotted(root: str, place: Place) -> str:
    """Write a place as a path: `payload.items[0].name`."""
    return root + "".join(f"[{step}]" if isinstance(step, int) else f".{_clipped(step)}" for step in place)


def _complaints(error: ValidationError) -> Iterator[Complaint]:
    place = tuple(error.instance_path)
    match error.kind:
        case ValidationErrorKind.Required(property=name):
            yield Complaint((*place, name), "missing", "is missing")
        case ValidationErrorKind.AdditionalProperties(unexpected=names):
            for name in names:
                yield Complaint((*place, name), "unknown", "is not a known field")
        case ValidationErrorKind.PropertyNames(error=inner):
            for found in _complaints(inner):
                yield Complaint((*place, str(inner.instance)), "name", f"the name {found.message}")
        case ValidationErrorKind.Enum(options=options):
            allowed = ", ".join(str(option) for option in options)
            yield Complaint(place, "enum", f"{_shown(error.instance)} is not one of: {allowed}")
        case ValidationErrorKind.Constant(expected_value=expected):
            yield Complaint(place, "const", f"{_shown(error.instance)} is not {_shown(expected)}")
        case other:
            message = error.message.replace(_MASK, _shown(error.instance))
            yield Complaint(place, _snake(other.name) or "schema", message)


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
