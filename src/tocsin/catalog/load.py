"""From a folder to a catalog, or to everything that is wrong with it."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from tocsin.catalog.catalog import Catalog, Edition
from tocsin.catalog.declaration import Declared, declared_in
from tocsin.catalog.folder import Folder, TemplateFile, read_folder
from tocsin.catalog.schema import Schema
from tocsin.catalog.templates.template_check import accepted_examples, example_faults, upgrade_faults
from tocsin.catalog.templates.texts import texts_of
from tocsin.domain.catalog import Payload
from tocsin.domain.errors import CatalogError
from tocsin.domain.faults import Fault


class Reading(msgspec.Struct, frozen=True):
    """What was found in a folder."""

    editions: tuple[Edition, ...]
    faults: tuple[Fault, ...]


class _Version(msgspec.Struct, frozen=True):
    declared: Declared
    schema: Schema
    examples: Sequence[Payload]


def shipped_catalog() -> Path:
    """Give the folder of the catalog that comes with Tocsin."""
    return Path(__file__).parent / "shipped"


def load_catalog(folder: Path) -> Catalog:
    """Read a catalog, or raise every fault it has with its file and line."""
    reading = read_catalog(folder)
    if reading.faults:
        count = f"{len(reading.faults)} fault{'s' if len(reading.faults) > 1 else ''}"
        raise CatalogError(f"The catalog in {folder} has {count}:", reading.faults)
    return Catalog(reading.editions)


def read_catalog(root: Path) -> Reading:
    """Read a catalog as far as it can be read."""
    folder = read_folder(root)
    faults = list(folder.faults)
    declared = _declared(folder, faults)
    versions = _versions(declared, faults)
    files = defaultdict(list)
    for file in folder.templates:
        files[file.folder].append(file)
    editions = [_edition(version, versions, files, faults) for version in versions.values()]
    faults.extend(_strays(folder, declared))
    return Reading(tuple(editions), tuple(_in_order(faults)))


def _declared(folder: Folder, faults: list[Fault]) -> dict[tuple[str, int], Declared]:
    first: dict[str, Declared] = {}
    found = {}
    for source in folder.types:
        declared, wrong = declared_in(source)
        faults.extend(wrong)
        for each in declared:
            name = each.type.name
            earlier = first.setdefault(name, each)
            if earlier.source is each.source:
                found[name, each.type.version] = each
            elif each.newest:
                message = f"the type {name} is declared in {earlier.source.path} too"
                faults.append(each.fault((), "duplicate", message))
    return found


def _versions(
    declared: Mapping[tuple[str, int], Declared], faults: list[Fault]
) -> dict[tuple[str, int], _Version]:
    versions = {}
    for key, each in declared.items():
        schema = Schema(each.type.payload_schema)
        examples = accepted_examples(each.type.payload_schema, schema)
        faults.extend(example_faults(each, examples))
        versions[key] = _Version(each, schema, examples)
    return versions


def _edition(
    version: _Version,
    versions: Mapping[tuple[str, int], _Version],
    files: Mapping[str, Sequence[TemplateFile]],
    faults: list[Fault],
) -> Edition:
    notification_type = version.declared.type
    if notification_type.upgrade is not None:
        following = versions[
            notification_type.name,
            min(
                v for name, v in versions if name == notification_type.name and v > notification_type.version
            ),
        ]
        faults.extend(
            upgrade_faults(
                version.declared,
                notification_type.upgrade,
                following.declared,
                following.schema,
                version.examples,
            )
        )
        return Edition(notification_type, version.schema)
    folder = _folder(version.declared)
    texts = texts_of(version.declared, folder, files.get(folder, ()), version.examples)
    faults.extend(texts.faults)
    return Edition(notification_type, version.schema, texts.data, texts.by_channel, texts.appearance)


def _folder(declared: Declared) -> str:
    """Name the folder of a version's templates; the newest has the type's own name."""
    notification_type = declared.type
    return (
        notification_type.name if declared.newest else f"{notification_type.name}@{notification_type.version}"
    )


def _strays(folder: Folder, declared: Mapping[tuple[str, int], Declared]) -> Iterable[Fault]:
    """Find template folders that no type uses, unless the type they belong to could not be read."""
    if any(source.faults for source in folder.types):
        return
    used = {_folder(each) for each in declared.values() if each.type.upgrade is None}
    named = {name for source in folder.types if isinstance(source.value, dict) for name in source.value}
    spoilt = named - {name for name, _ in declared}
    reported: set[str] = set()
    for file in folder.templates:
        if file.folder not in used | reported and file.folder.partition("@")[0] not in spoilt:
            reported.add(file.folder)
            message = (
                f"no type uses the folder templates/{file.folder}; declare the type or delete the folder"
            )
            yield Fault(field=file.source.place(1), code="stray", message=message)


def _in_order(faults: Iterable[Fault]) -> list[Fault]:
    def place(fault: Fault) -> tuple[str, int]:
        path, _, line = fault.field.rpartition(":")
        return path, int(line)

    return sorted(faults, key=place)
