"""The type declarations of a YAML file."""

import json
from collections.abc import Iterator, Mapping
from importlib import resources
from typing import Any

import msgspec
from jsonschema_rs import dereference

from tocsin.catalog.attributes import attribute_violations
from tocsin.catalog.policies import each_version, parse_policies, policy_violations
from tocsin.catalog.schema import KeyPath, Schema, SchemaViolation, part_of, schema_violations
from tocsin.catalog.source import YamlSource
from tocsin.domain.catalog import (
    DEFAULT_LOCALE,
    NO_POLICIES,
    Channel,
    Event,
    NotificationType,
    Policies,
    Upgrade,
)
from tocsin.domain.faults import Fault
from tocsin.domain.people.locale import normalize

_FILE = Schema(json.loads(resources.files(__package__).joinpath("type.schema.json").read_text("utf-8")))


# Tocsin sets the first three itself; FCM refuses the others.
_RESERVED_DATA = frozenset({"delivery_id", "notification_id", "receipt_token", "from", "message_type"})
_RESERVED_PREFIXES = ("google", "gcm")
_NO_CATEGORIES: tuple[Any, ...] = (None, True, 7, [], {}, "", "A", "7a", "a b", "a.b", "\xe4", "a" * 65)
# Bare addresses have no devices, and a topic has no addresses.
_REACHED_BY = {"emails": "email", "admins": "email", "topic": "push", "condition": "push"}
_SECTIONS: Mapping[str, Channel] = {"push": "push", "inbox": "inbox", "event": "push"}
"""The sections that are about one channel."""
_APPEARANCE_DATA = frozenset({"deep_link", "route"})


class Declaration(msgspec.Struct, frozen=True):
    """One version of a type, its compiled schema, and where it is declared."""

    type: NotificationType
    schema: Schema
    source: YamlSource
    key_path: KeyPath

    @property
    def newest(self) -> bool:
        """Whether this is the newest version of its type."""
        return self.key_path == (self.type.name,)

    @property
    def template_folder(self) -> str:
        """The folder of its templates: the name of the type, with `@version` for an older version."""
        return self.type.name if self.newest else f"{self.type.name}@{self.type.version}"

    def line(self, below: KeyPath) -> int:
        """Return the line of a key path below the declaration."""
        return self.source.line((*self.key_path, *below))

    def fault(self, below: KeyPath, code: str, message: str) -> Fault:
        """Build a fault for the line of a key path below the declaration."""
        return self.source.fault((*self.key_path, *below), code, message)


def read_declarations(
    source: YamlSource, defaults: Policies = NO_POLICIES
) -> tuple[list[Declaration], list[Fault]]:
    """Parse every type of a file; return those without faults, and all faults."""
    faults = list(source.faults) or _faults(source, _file_violations(source.value))
    if faults:
        return [], faults
    declarations: list[Declaration] = []
    for name, entry in source.value.items():
        found = _faults(source, _type_violations(name, entry))
        faults.extend(found)
        if not found:
            declarations.extend(_declarations(source, name, entry, defaults))
    return declarations, faults


def _faults(source: YamlSource, violations: Iterator[SchemaViolation]) -> list[Fault]:
    return [source.fault(found.key_path, found.code, found.message) for found in violations]


def _file_violations(value: Any) -> Iterator[SchemaViolation]:
    for found in _FILE.violations(value):
        subject = _subject(found.key_path) if found.key_path else "the file"
        yield SchemaViolation(found.key_path, found.code, f"{subject}: {found.message}")


def _subject(key_path: KeyPath) -> str:
    """Return the last key of a path with the index below it: `channels[1]`."""
    match key_path:
        case (*_, key, int(index)):
            return f"{key}[{index}]"
        case _:
            return str(key_path[-1])


def _type_violations(name: str, entry: Mapping[str, Any]) -> Iterator[SchemaViolation]:
    """List what is wrong with a type beyond what the JSON Schema of the file checks."""
    locale = entry.get("default_locale", DEFAULT_LOCALE)
    if (problem := locale_problem(locale)) is not None:
        yield SchemaViolation((name, "default_locale"), "locale", problem)
    yield from policy_violations(name, entry)
    yield from attribute_violations(name, entry)
    yield from _audience_violations(name, entry)
    for key_path, version in each_version(name, entry):
        for section, channel in _SECTIONS.items():
            if section in version and channel not in entry["channels"]:
                message = f"{name} has no channel {channel}; add the channel or remove this section"
                yield SchemaViolation((*key_path, section), "channel", message)
        yield from _version_violations(key_path, version)
        if "category_field" in entry and "upgrade" not in version:
            yield from _category_violations(name, entry["category_field"], version["payload"])
    for number, older in entry.get("versions", {}).items():
        key_path = (name, "versions", number)
        if int(number) >= entry["version"]:
            message = f"version {number} is not older than {entry['version']}, the newest"
            yield SchemaViolation(key_path, "version", message)
        for section in ("data", *_SECTIONS):
            if "upgrade" in older and section in older:
                message = f"{section} comes from the version that this one upgrades to; remove it here"
                yield SchemaViolation((*key_path, section), section, message)


def _category_violations(name: str, field: str, payload: Mapping[str, Any]) -> Iterator[SchemaViolation]:
    if schema_violations(payload):
        return
    fields = payload.get("properties", {})
    if field not in fields:
        message = f"{field!r} is not a field of the payload, which has: {', '.join(fields) or 'none'}"
        yield SchemaViolation((name, "category_field"), "category", message)
        return
    root = dereference(dict(payload))
    allowed = part_of(root, root["properties"][field])
    if any(allowed.accepts(value) for value in _NO_CATEGORIES):
        message = (
            f"payload.{field} must allow the names of categories only: give it an `enum:`, or type: string, "
            "pattern: ^[a-z][a-zA-Z0-9_-]*$ and maxLength: 64"
        )
        yield SchemaViolation((name, "category_field"), "category", message)


def _audience_violations(name: str, entry: Mapping[str, Any]) -> Iterator[SchemaViolation]:
    """List the channels of audiences that the type has not, or that cannot reach such an audience."""
    for kind, channels in entry.get("audiences", {}).items():
        for index, channel in enumerate(channels):
            key_path = (name, "audiences", kind, index)
            if channel not in entry["channels"]:
                message = f"{name} has no channel {channel}, only {', '.join(entry['channels'])}"
                yield SchemaViolation(key_path, "channel", message)
            elif channel != _REACHED_BY.get(kind, channel):
                message = f"an audience of {kind} is reached by {_REACHED_BY[kind]} only; remove {channel}"
                yield SchemaViolation(key_path, "audience", message)


def locale_problem(locale: str) -> str | None:
    """Return what is wrong with a locale tag, if anything."""
    normal = normalize(locale)
    if normal == locale:
        return None
    return f"{locale!r} is not a locale" if normal is None else f"write the locale {locale!r} as {normal!r}"


def _version_violations(key_path: KeyPath, version: Mapping[str, Any]) -> Iterator[SchemaViolation]:
    for found in schema_violations(version["payload"]):
        subject = ".".join(map(str, ("payload", *found.key_path)))
        yield SchemaViolation(
            (*key_path, "payload", *found.key_path), "schema", f"{subject}: {found.message}"
        )
    properties = version["payload"].get("properties", {})
    for index, field in enumerate(version.get("event", {}).get("fields", ())):
        if field not in properties:
            have = ", ".join(properties) or "none"
            message = f"event: {field!r} is not a field of the payload, which has: {have}"
            yield SchemaViolation((*key_path, "event", "fields", index), "event", message)
    for field in version.get("data", {}):
        if field in _RESERVED_DATA or field.startswith(_RESERVED_PREFIXES):
            message = f"the data field {field} is reserved; choose another name"
            yield SchemaViolation((*key_path, "data", field), "reserved", message)
        elif field in _APPEARANCE_DATA and field in version.get("push", {}):
            message = f"push.{field} reaches the app as the data field {field}; remove one of them"
            yield SchemaViolation((*key_path, "data", field), "reserved", message)


def _declarations(
    source: YamlSource, name: str, entry: Mapping[str, Any], defaults: Policies
) -> Iterator[Declaration]:
    for key_path, version in each_version(name, entry):
        notification_type = NotificationType(
            name=name,
            version=int(version.get("version", key_path[-1])),
            category=entry["category"],
            category_field=entry.get("category_field"),
            channels=tuple(entry["channels"]),
            audiences=_audiences(entry),
            default_locale=entry.get("default_locale", DEFAULT_LOCALE),
            locale_match=entry.get("locale_match", "closest"),
            payload_schema=version["payload"],
            data=version.get("data", {}),
            push={field: str(template) for field, template in version.get("push", {}).items()},
            inbox={field: str(template) for field, template in version.get("inbox", {}).items()},
            event=msgspec.convert(version["event"], Event) if "event" in version else None,
            attributes=entry.get("attributes", {}),
            policies=parse_policies(entry.get("policies", {}), defaults),
            upgrade=msgspec.convert(version["upgrade"], Upgrade) if "upgrade" in version else None,
        )
        yield Declaration(notification_type, Schema(version["payload"]), source, key_path)


def _audiences(entry: Mapping[str, Any]) -> Mapping[str, tuple[Channel, ...]] | None:
    if "audiences" not in entry:
        return None
    return {kind: tuple(channels) for kind, channels in entry["audiences"].items()}
