"""The custom attributes of users that the templates of a type use: their schemas, defaults and examples."""

from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

import msgspec

from tocsin.catalog.examples import example_payloads
from tocsin.catalog.policies import each_version
from tocsin.catalog.schema import Schema, SchemaViolation, schema_violations
from tocsin.domain.catalog import NotificationType, Payload
from tocsin.domain.faults import Fault
from tocsin.domain.people.attributes import value_fault

USER = "user"
"""The name under which templates read the recipient: `user.attributes.plan`."""
ATTRIBUTES = "attributes"


class UsedAttributes(msgspec.Struct, frozen=True):
    """The attributes that a type declares, each with its compiled schema and its default."""

    compiled: Mapping[str, tuple[Schema, Any]]

    def variables(self, stored: Mapping[str, Any]) -> Payload:
        """Return what templates read of a user; one that is missing or does not fit is its default."""
        return user_variables(
            {
                name: stored[name] if name in stored and schema.accepts(stored[name]) else default
                for name, (schema, default) in self.compiled.items()
            }
        )


def attributes_of(notification_type: NotificationType) -> UsedAttributes | None:
    """Compile the attributes of a type; None if it declares none."""
    if not notification_type.attributes:
        return None
    return UsedAttributes(
        {
            name: (Schema(schema), schema["default"])
            for name, schema in declared_schemas(notification_type.attributes).items()
        }
    )


def attribute_faults_of(notification_type: NotificationType, given: Mapping[str, Any]) -> list[Fault]:
    """List the given attributes that a type does not declare, and what is wrong with the other values."""
    declared = declared_schemas(notification_type.attributes)
    faults = []
    for name, value in given.items():
        if name in declared:
            faults += Schema(declared[name]).faults(f"attributes.{name}", value)
        else:
            message = f"is not declared by {notification_type}, which has: {', '.join(declared) or 'none'}"
            faults.append(Fault(field=f"attributes.{name}", code="unknown", message=message))
    return faults


def user_variables(attributes: Mapping[str, Any]) -> Payload:
    """Return the names that templates read besides the payload."""
    return {USER: {ATTRIBUTES: attributes}}


def declared_schemas(section: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the schemas of a section `attributes`; a list is one of texts."""
    return {
        name: {"items": {"type": "string"}, **schema} if schema["type"] == "array" else dict(schema)
        for name, schema in section.items()
    }


def template_schema(notification_type: NotificationType) -> Mapping[str, Any]:
    """Return the schema of all that templates of a type read: the payload, and the declared attributes."""
    schema = notification_type.payload_schema
    if not notification_type.attributes:
        return schema
    attributes = {"type": "object", "properties": declared_schemas(notification_type.attributes)}
    user = {"type": "object", "properties": {ATTRIBUTES: attributes}}
    return {**schema, "properties": {**schema.get("properties", {}), USER: user}}


def example_attributes(notification_type: NotificationType) -> list[dict[str, Any]]:
    """Build attributes that together have every example and default, one change at a time."""
    values = {
        name: [value for value in [*example_payloads(schema), schema["default"]] if _fits(schema, value)]
        for name, schema in declared_schemas(notification_type.attributes).items()
    }
    full = {name: found[0] for name, found in values.items()}
    return [full, *({**full, name: other} for name, found in values.items() for other in found[1:])]


def with_attributes(notification_type: NotificationType, examples: Sequence[Payload]) -> Sequence[Payload]:
    """Add the examples of a type's attributes to its example payloads."""
    if not notification_type.attributes or not examples:
        return examples
    first, *others = map(user_variables, example_attributes(notification_type))
    return [
        *({**payload, **first} for payload in examples),
        *({**examples[0], **each} for each in others),
    ]


def attribute_violations(name: str, entry: Mapping[str, Any]) -> Iterator[SchemaViolation]:
    """List what is wrong with the attributes of a type beyond what the JSON Schema of the file checks."""
    section = entry.get("attributes", {})
    for attribute, schema in section.items():
        place = (name, "attributes", attribute)
        if violations := schema_violations(schema):
            for found in violations:
                message = f"attributes.{attribute}: {found.message}"
                yield SchemaViolation((*place, *found.key_path), "schema", message)
        elif problem := _default_problem(declared_schemas({attribute: schema})[attribute]):
            message = f"the default of {attribute} {problem}"
            yield SchemaViolation((*place, "default"), "default", message)
    for key_path, version in each_version(name, entry) if section else ():
        if USER in version["payload"].get("properties", {}):
            message = f"templates read attributes as {USER}.attributes; rename the payload field {USER!r}"
            yield SchemaViolation((*key_path, "payload", "properties", USER), "attributes", message)


def unknown_attributes(names: Mapping[str, int], declared: Mapping[str, Any]) -> Iterator[tuple[int, str]]:
    """List the attributes that a template reads and its type does not declare, each with its line."""
    for name, line in names.items():
        if name not in declared:
            near = get_close_matches(name, declared, n=1)
            guess = f"did you mean {near[0]!r}?" if near else "declare it there with its type and default"
            known = ", ".join(declared) or "none"
            yield line, f"{name!r} is not one of the type's `attributes:`, which are: {known}; {guess}"


def _default_problem(schema: Mapping[str, Any]) -> str | None:
    default = schema["default"]
    if problem := value_fault(default):
        return problem
    found = Schema(schema).violations(default)
    return f"does not fit: {found[0].message}" if found else None


def _fits(schema: Mapping[str, Any], value: Any) -> bool:
    return value_fault(value) is None and Schema(schema).accepts(value)
