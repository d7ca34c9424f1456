"""Example payloads generated from a JSON Schema, to check templates and upgrades."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from jsonschema_rs import dereference

from tocsin.catalog.schema import KeyPath, part_of

_FORMATS = {
    "date": "2031-05-17",
    "date-time": "2031-05-17T09:30:00Z",
    "duration": "PT15M",
    "email": "ada@example.org",
    "hostname": "example.org",
    "ipv4": "192.0.2.7",
    "ipv6": "2001:db8::7",
    "time": "09:30:00Z",
    "uri": "https://example.org/item",
    "uuid": "0190b5d2-7c4e-7a11-9c0e-3f6a5b2d1e40",
}


def example_payloads(schema: Mapping[str, Any]) -> Sequence[Any]:
    """Build payloads that together have every field present and absent, one change at a time.

    Some may violate the schema, for example when two fields exclude each other. The caller keeps
    those that the schema accepts.
    """
    return _values(dereference(dict(schema)))


def fields_without_example(schema: Mapping[str, Any]) -> list[KeyPath]:
    """List the fields, each as deep as its cause, for which no example can be made."""
    root = dereference(dict(schema))
    return list(_lacking(root, root, ()))


def _lacking(root: Mapping[str, Any], schema: Any, key_path: KeyPath) -> Iterator[KeyPath]:
    for name, field in schema.get("properties", {}).items() if isinstance(schema, Mapping) else ():
        below = (*key_path, "properties", name)
        compiled = part_of(root, field)
        if not any(compiled.accepts(value) for value in _values(field)):
            yield from list(_lacking(root, field, below)) or [below]


def _values(schema: Any) -> Sequence[Any]:
    given = schema.get("examples", []) if isinstance(schema, Mapping) else []
    return [*given, *_generated(schema)]


def _generated(schema: Any) -> Sequence[Any]:
    match schema:
        case {"enum": [*options]}:
            return options
        case {"const": value}:
            return [value]
        case {"anyOf": branches} | {"oneOf": branches}:
            rest = {key: value for key, value in schema.items() if key not in {"anyOf", "oneOf"}}
            return [value for branch in branches for value in _values(_merged(rest, branch))]
        case {"type": [*names]}:
            return [value for name in names for value in _values({**schema, "type": name})]
        case {"type": str(name)} if name in _OF_TYPE:
            return _OF_TYPE[name](schema)
        case _:
            return []


def _merged(rest: Mapping[str, Any], branch: Any) -> Any:
    return {**rest, **branch} if isinstance(branch, Mapping) else rest


def _objects(schema: Mapping[str, Any]) -> list[dict[str, Any]]:
    values = {
        name: found for name, field in schema.get("properties", {}).items() if (found := _values(field))
    }
    required = [name for name in schema.get("required", []) if name in values]
    optional = [name for name in values if name not in required]
    full = {name: found[0] for name, found in values.items()}
    bare = {name: full[name] for name in required}
    return [
        full,
        bare,
        *({**full, name: other} for name, found in values.items() for other in found[1:]),
        *({key: value for key, value in full.items() if key != name} for name in optional),
        *({**bare, name: full[name]} for name in optional),
    ]


def _arrays(schema: Mapping[str, Any]) -> list[list[Any]]:
    items = _values(schema.get("items", {"type": "string"}))
    fewest = int(schema.get("minItems", 0))
    several: Sequence[list[Any]] = [[item] * max(1, fewest) for item in items]
    return [*several, []] if fewest == 0 else list(several)


def _string(schema: Mapping[str, Any]) -> str:
    if (known := _FORMATS.get(schema.get("format", ""))) is not None:
        return known
    text = "example".ljust(int(schema.get("minLength", 0)), "x")
    return text[: int(schema.get("maxLength", len(text)))]


def _number(schema: Mapping[str, Any]) -> int | float:
    step: int | float = schema.get("multipleOf", 1)
    lowest: int | float = schema.get("minimum", schema.get("exclusiveMinimum", 0) + step)
    highest: int | float = schema.get("maximum", schema.get("exclusiveMaximum", lowest + step) - step)
    return min(lowest, highest)


_OF_TYPE: Mapping[str, Callable[[Mapping[str, Any]], Sequence[Any]]] = {
    "object": _objects,
    "array": _arrays,
    "string": lambda schema: [_string(schema)],
    "integer": lambda schema: [_number(schema)],
    "number": lambda schema: [_number(schema)],
    "boolean": lambda _: [True, False],
    "null": lambda _: [None],
}
