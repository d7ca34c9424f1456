"""The report of `tocsin catalog check`."""

from collections.abc import Mapping
from itertools import groupby
from pathlib import Path

import msgspec

from tocsin.catalog.catalog import CompiledType
from tocsin.catalog.load import read_catalog
from tocsin.domain.catalog import Channel
from tocsin.domain.faults import Fault


class VersionReport(msgspec.Struct, frozen=True, kw_only=True):
    """One version of a type: whether its payloads are upgraded, and the locales of each channel."""

    version: int
    upgrades: bool
    locales: dict[Channel, tuple[str, ...]]


class TypeReport(msgspec.Struct, frozen=True, kw_only=True):
    """One type with its versions, newest first."""

    name: str
    category: str
    channels: tuple[Channel, ...]
    audiences: Mapping[str, tuple[Channel, ...]] | None = None
    versions: tuple[VersionReport, ...]


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The types that could be read, and every fault."""

    types: tuple[TypeReport, ...]
    faults: tuple[Fault, ...]


def check(folder: Path) -> Report:
    """Check a catalog as far as it can be read."""
    compiled, faults = read_catalog(folder)
    ordered = sorted(compiled, key=lambda each: (each.type.name, -each.type.version))
    types = tuple(_report(*versions) for _, versions in groupby(ordered, key=lambda each: each.type.name))
    return Report(types=types, faults=tuple(faults))


def _report(*versions: CompiledType) -> TypeReport:
    newest = versions[0].type
    reports = (
        VersionReport(
            version=each.type.version,
            upgrades=each.type.upgrade is not None,
            locales={channel: tuple(sorted(locales)) for channel, locales in each.texts.items()},
        )
        for each in versions
    )
    return TypeReport(
        name=newest.name,
        category=newest.category,
        channels=newest.channels,
        audiences=newest.audiences,
        versions=tuple(reports),
    )
