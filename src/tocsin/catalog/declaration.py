"""From a YAML file to the types it declares."""

import json
from collections.abc import Iterator, Mapping
from importlib import resources
from typing import Any

import msgspec

from tocsin.catalog.policies import policies_of, wrong_policies
from tocsin.catalog.schema import Place, Schema, schema_complaints
from tocsin.catalog.source import Source
from tocsin.domain.catalog import NotificationType, Upgrade
from tocsin.domain.faults import Fault
from tocsin.domain.people.locale import normalize

_FILE = Schema(json.loads(resources.files(__package__).joinpath("type.schema.json").read_text("utf-8")))

DEFAULT_LOCALE = "en"

# Tocsin sets the first two itself; FCM refuses the others.
_RESERVED_DATA = frozenset({"delivery_id", "notification_id", "from", "message_type"})
_RESERVED_DATA_STARTS = ("google", "gcm")
_APPEARANCE_DATA = frozenset({"deep_link", "route"})


class Declared(msgspec.Struct, frozen=True):
    """A type in one version, and where it was declared."""

    type: NotificationType
    source: Source
    place: Place
    newest: bool

    def line(self, below: Place) -> int:
        """Give the line of a place in the declaration."""
        return self.source.line((*self.place, *below))

    def fault(self, below: Place, code: str, message: str) -> Fault:
        """Name a fault by its line in the declaration."""
        return self.source.fault((*self.place, *below), code, message)


def declared_in(source: Source) -> tuple[list[Declared], list[Fault]]:
    """Read every type of a file; a type with faults is left out and its faults are named."""
    faults = list(source.faults)
    if not faults:
        faults = list(_misshapen(source))
    if faults:
        return [], faults
    declared: list[Declared] = []
    for name, entry in source.value.items():
        found = list(_wrong_values(source, name, entry))
        faults.extend(found)
        if not found:
            declared.extend(_versions(source, name, entry))
    return declared, faults


def _misshapen(source: Source) -> Iterator[Fault]:
    for found in _FILE.complaints(source.value):
        subject = str(found.place[-1]) if found.place else "the file"
        yield source.fault(found.place, found.code, f"{subject}: {found.message}")


def _wrong_values(source: Source, name: str, entry: Mapping[str, Any]) -> Iterator[Fault]:
    """Check what a schema of the file cannot say."""
    locale = entry.get("default_locale", DEFAULT_LOCALE)
    if normalize(locale) != locale:
        yield source.fault((name, "default_locale"), "locale", _locale_advice(locale))
    yield from wrong_policies(source, name, entry)
    yield from _wrong_push(source, name, entry)
    yield from _wrong_version(source, (name,), entry)
    for number, older in entry.get("versions", {}).items():
        place = (name, "versions", number)
        if int(number) >= entry["version"]:
            message = f"version {number} is not older than {entry['version']}, the newest"
            yield source.fault(place, "version", message)
        for section in ("data", "push"):
            if "upgrade" in older and section in older:
                message = f"{section} is taken from the version that this one upgrades to; remove it here"
                yield source.fault((*place, section), section, message)
        yield from _wrong_version(source, place, older)


def _wrong_push(source: Source, name: str, entry: Mapping[str, Any]) -> Iterator[Fault]:
    older = entry.get("versions", {})
    versions = {(name,): entry} | {(name, "versions", number): each for number, each in older.items()}
    for place, each in versions.items():
        if "push" in each and "push" not in entry["channels"]:
            message = f"{name} has no channel push; add the channel or remove this section"
            yield source.fault((*place, "push"), "channel", message)


def _wrong_version(source: Source, place: Place, entry: Mapping[str, Any]) -> Iterator[Fault]:
    for found in schema_complaints(entry["payload"]):
        subject = ".".join(map(str, ("payload", *found.place)))
        yield source.fault((*place, "payload", *found.place), "schema", f"{subject}: {found.message}")
    for field in entry.get("data", {}):
        if field in _RESERVED_DATA or field.startswith(_RESERVED_DATA_STARTS):
            message = f"the data field {field} is reserved; choose another name"
            yield source.fault((*place, "data", field), "reserved", message)
        elif field in _APPEARANCE_DATA and field in entry.get("push", {}):
            message = f"push.{field} is handed to the app as the data field {field}; remove one of them"
            yield source.fault((*place, "data", field), "reserved", message)


def _locale_advice(locale: str) -> str:
    usual = normalize(locale)
    return f"{locale!r} is no locale" if usual is None else f"write the locale {locale!r} as {usual!r}"


def _versions(source: Source, name: str, entry: Mapping[str, Any]) -> Iterator[Declared]:
    for number, older in entry.get("versions", {}).items():
        yield Declared(
            _type(name, int(number), entry, older), source, (name, "versions", number), newest=False
        )
    yield Declared(_type(name, entry["version"], entry, entry), source, (name,), newest=True)


def _type(
    name: str, version: int, entry: Mapping[str, Any], versioned: Mapping[str, Any]
) -> NotificationType:
    """Build one version: what it says of itself, and what the type says of all of them."""
    return NotificationType(
        name=name,
        version=version,
        category=entry["category"],
        channels=tuple(entry["channels"]),
        default_locale=entry.get("default_locale", DEFAULT_LOCALE),
        payload_schema=versioned["payload"],
        data=versioned.get("data", {}),
        push={field: str(words) for field, words in versioned.get("push", {}).items()},
        policies=policies_of(entry.get("policies", {})),
        upgrade=msgspec.convert(versioned["upgrade"], Upgrade) if "upgrade" in versioned else None,
    )
