"""What `tocsin catalog check` says of a folder."""

from collections.abc import Iterable
from pathlib import Path

import msgspec

from tocsin.catalog.catalog import Edition
from tocsin.catalog.load import read_catalog
from tocsin.domain.catalog import Channel
from tocsin.domain.faults import Fault


class VersionReport(msgspec.Struct, frozen=True, kw_only=True):
    """One version of a type: where its payload goes, and the locales it can be read in."""

    version: int
    upgrades: bool
    locales: dict[Channel, tuple[str, ...]]


class TypeReport(msgspec.Struct, frozen=True, kw_only=True):
    """One type with its versions, newest first."""

    name: str
    category: str
    channels: tuple[Channel, ...]
    versions: tuple[VersionReport, ...]


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The types that could be read, and every fault."""

    types: tuple[TypeReport, ...]
    faults: tuple[Fault, ...]


def check(folder: Path) -> Report:
    """Check a catalog as far as it can be read."""
    reading = read_catalog(folder)
    by_name: dict[str, list[Edition]] = {}
    for edition in reading.editions:
        by_name.setdefault(edition.type.name, []).append(edition)
    types = tuple(_type(by_name[name]) for name in sorted(by_name))
    return Report(types=types, faults=reading.faults)


def _type(editions: Iterable[Edition]) -> TypeReport:
    newest, *older = sorted(editions, key=lambda edition: edition.type.version, reverse=True)
    return TypeReport(
        name=newest.type.name,
        category=newest.type.category,
        channels=newest.type.channels,
        versions=tuple(_version(edition) for edition in (newest, *older)),
    )


def _version(edition: Edition) -> VersionReport:
    return VersionReport(
        version=edition.type.version,
        upgrades=edition.type.upgrade is not None,
        locales={channel: tuple(sorted(locales)) for channel, locales in edition.texts.items()},
    )
