"""From a YAML file to the types it declares."""

import json
from collections.abc import Iterator, Mapping
from datetime import timedelta
from importlib import resources
from typing import Any

import msgspec

from tocsin.catalog.schema import Place, Schema, schema_complaints
from tocsin.catalog.source import Source
from tocsin.domain.backoff import parse_backoff, parse_duration
from tocsin.domain.catalog import DEFAULT_BACKOFF, Digest, NotificationType, Policies, Throttle, Upgrade
from tocsin.domain.digest import NAMES
from tocsin.domain.faults import Fault
from tocsin.domain.locale import normalize

_FILE = Schema(json.loads(resources.files(__package__).joinpath("type.schema.json").read_text("utf-8")))

DEFAULT_LOCALE = "en"
LONGEST_WINDOW = timedelta(days=30)

# Tocsin sets the first two itself; FCM refuses the others.
_RESERVED_DATA = frozenset({"delivery_id", "notification_id", "from", "message_type"})
_RESERVED_DATA_STARTS = ("google", "gcm")


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
    policies = entry.get("policies", {})
    try:
        parse_backoff(policies["backoff"]) if "backoff" in policies else None
    except ValueError as error:
        yield source.fault((name, "policies", "backoff"), "backoff", str(error))
    try:
        parse_duration(policies["throttle"]["per"]) if "throttle" in policies else None
    except ValueError as error:
        yield source.fault((name, "policies", "throttle", "per"), "throttle", str(error))
    if "digest" in policies:
        yield from _wrong_digest(source, name, entry)
    for channel in policies.get("attempts", {}):
        if channel not in entry["channels"]:
            field = (name, "policies", "attempts", channel)
            yield source.fault(field, "channel", f"{name} has no channel {channel}")
    yield from _wrong_version(source, (name,), entry)
    for number, older in entry.get("versions", {}).items():
        place = (name, "versions", number)
        if int(number) >= entry["version"]:
            message = f"version {number} is not older than {entry['version']}, the newest"
            yield source.fault(place, "version", message)
        if "upgrade" in older and "data" in older:
            message = "data is taken from the version that this one upgrades to; remove it here"
            yield source.fault((*place, "data"), "data", message)
        yield from _wrong_version(source, place, older)


def _wrong_digest(source: Source, name: str, entry: Mapping[str, Any]) -> Iterator[Fault]:
    place = (name, "policies", "digest")
    policies = entry["policies"]
    try:
        if not timedelta(0) < parse_duration(policies["digest"]["window"]) <= LONGEST_WINDOW:
            message = f"the window must be longer than 0 and at most {LONGEST_WINDOW.days}d"
            yield source.fault((*place, "window"), "digest", message)
    except ValueError as error:
        yield source.fault((*place, "window"), "digest", str(error))
    if policies.get("ordered"):
        message = "what is collected has no order of its own; remove digest or ordered"
        yield source.fault(place, "digest", message)
    by = policies["digest"].get("by")
    older = entry.get("versions", {})
    told = {(name,): entry} | {
        (name, "versions", number): each for number, each in older.items() if "upgrade" not in each
    }
    for version, each in told.items():
        fields = each["payload"].get("properties", {})
        if by is not None and by not in fields:
            message = f"{by!r} is not a field of the payload, which has: {', '.join(fields) or 'none'}"
            yield source.fault((*place, "by"), "digest", message)
        for taken in NAMES:
            if taken in fields:
                message = f"the texts of a digest have a {taken} of their own; rename the field"
                yield source.fault((*version, "payload", "properties", taken), "reserved", message)


def _wrong_version(source: Source, place: Place, entry: Mapping[str, Any]) -> Iterator[Fault]:
    for found in schema_complaints(entry["payload"]):
        subject = ".".join(map(str, ("payload", *found.place)))
        yield source.fault((*place, "payload", *found.place), "schema", f"{subject}: {found.message}")
    for field in entry.get("data", {}):
        if field in _RESERVED_DATA or field.startswith(_RESERVED_DATA_STARTS):
            message = f"the data field {field} is reserved; choose another name"
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
        policies=_policies(entry.get("policies", {})),
        upgrade=msgspec.convert(versioned["upgrade"], Upgrade) if "upgrade" in versioned else None,
    )


def _policies(entry: Mapping[str, Any]) -> Policies:
    backoff = parse_backoff(entry["backoff"]) if "backoff" in entry else DEFAULT_BACKOFF
    throttle = _throttle(entry["throttle"]) if "throttle" in entry else None
    digest = _digest(entry["digest"]) if "digest" in entry else None
    rest = {key: value for key, value in entry.items() if key not in {"backoff", "throttle", "digest"}}
    return msgspec.structs.replace(
        msgspec.convert(rest, Policies), backoff=backoff, throttle=throttle, digest=digest
    )


def _throttle(entry: Mapping[str, Any]) -> Throttle:
    return Throttle(
        limit=entry["limit"], per=parse_duration(entry["per"]), beyond=entry.get("beyond", "skip")
    )


def _digest(entry: Mapping[str, Any]) -> Digest:
    return Digest(window=parse_duration(entry["window"]), by=entry.get("by"))
