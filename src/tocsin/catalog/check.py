"""The report of `tocsin catalog check`."""

from collections.abc import Iterator, Mapping
from itertools import chain, groupby
from pathlib import Path

import msgspec

from tocsin.catalog.catalog import CompiledType
from tocsin.catalog.examples import example_payloads
from tocsin.catalog.load import read_catalog
from tocsin.domain.catalog import Channel
from tocsin.domain.faults import Fault
from tocsin.domain.personal_data import suspected_personal_data


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
    """The types that could be read, every fault, and warnings, which do not keep it from being used."""

    types: tuple[TypeReport, ...]
    faults: tuple[Fault, ...]
    warnings: tuple[Fault, ...] = ()


def check(folder: Path) -> Report:
    """Check a catalog as far as it can be read."""
    compiled, faults = read_catalog(folder)
    ordered = sorted(compiled, key=lambda each: (each.type.name, -each.type.version))
    types = tuple(_report(*versions) for _, versions in groupby(ordered, key=lambda each: each.type.name))
    warnings = (warning for each in ordered for warning in _personal_data(each))
    return Report(types=types, faults=tuple(faults), warnings=tuple(warnings))


def _personal_data(compiled: CompiledType) -> Iterator[Fault]:
    """List the fields of pushed payloads whose examples look like personal data."""
    type_ = compiled.type
    reached = type_.channels if type_.audiences is None else chain.from_iterable(type_.audiences.values())
    if "push" not in reached:
        return
    examples = [each for each in example_payloads(type_.payload_schema) if compiled.schema.accepts(each)]
    found = dict.fromkeys(chain.from_iterable(map(suspected_personal_data, examples)))
    for field, kind in found:
        message = f"an example looks like personal data ({kind}); a push is shown on locked screens"
        yield Fault(field=f"{type_} payload.{field}", code="personal_data", message=message)


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
