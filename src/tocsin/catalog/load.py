"""Loads a catalog folder: every template compiled, every fault found."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypeAlias

from tocsin.catalog.catalog import Catalog, CompiledType
from tocsin.catalog.declaration import Declaration, read_declarations
from tocsin.catalog.folder import Folder, read_folder
from tocsin.catalog.templates.template_check import accepted_examples, example_faults, upgrade_faults
from tocsin.catalog.templates.texts import compile_type
from tocsin.domain.catalog import NO_POLICIES, Policies
from tocsin.domain.errors import CatalogError
from tocsin.domain.faults import Fault

_Declarations: TypeAlias = Mapping[tuple[str, int], Declaration]


def shipped_catalog() -> Path:
    """Return the folder of the catalog that comes with Tocsin."""
    return Path(__file__).parent / "shipped"


def load_catalog(folder: Path, defaults: Policies = NO_POLICIES) -> Catalog:
    """Load a catalog, or raise CatalogError with every fault; `defaults` are the deployment's policies."""
    read = read_folder(folder)
    types, faults = _compile_all(read, defaults)
    if faults:
        count = f"{len(faults)} fault{'s' if len(faults) > 1 else ''}"
        raise CatalogError(f"The catalog in {folder} has {count}:", faults)
    return Catalog(types, read.fingerprint, defaults)


def read_catalog(root: Path) -> tuple[list[CompiledType], list[Fault]]:
    """Read a catalog as far as it can be read; return its types, and every fault by file and line."""
    return _compile_all(read_folder(root), NO_POLICIES)


def _compile_all(folder: Folder, defaults: Policies) -> tuple[list[CompiledType], list[Fault]]:
    faults = list(folder.faults)
    declarations = _declarations(folder, faults, defaults)
    types = [_compile(each, declarations, folder, faults) for each in declarations.values()]
    faults.extend(_unused_folders(folder, declarations))
    return types, sorted(faults, key=_position)


def _declarations(folder: Folder, faults: list[Fault], defaults: Policies) -> _Declarations:
    first: dict[str, Declaration] = {}
    found = {}
    for source in folder.types:
        declarations, wrong = read_declarations(source, defaults)
        faults.extend(wrong)
        for each in declarations:
            name = each.type.name
            earlier = first.setdefault(name, each)
            if earlier.source is each.source:
                found[name, each.type.version] = each
            elif each.newest:
                message = f"the type {name} is also declared in {earlier.source.path}"
                faults.append(each.fault((), "duplicate", message))
    return found


def _compile(
    declaration: Declaration, declarations: _Declarations, folder: Folder, faults: list[Fault]
) -> CompiledType:
    notification_type = declaration.type
    examples = accepted_examples(declaration)
    faults.extend(example_faults(declaration, examples))
    if notification_type.upgrade is None:
        files = [file for file in folder.templates if file.folder == declaration.template_folder]
        return compile_type(declaration, files, examples, faults)
    name, version = notification_type.name, notification_type.version
    following = min(number for other, number in declarations if other == name and number > version)
    faults.extend(
        upgrade_faults(declaration, notification_type.upgrade, declarations[name, following], examples)
    )
    return CompiledType(notification_type, declaration.schema)


def _unused_folders(folder: Folder, declarations: _Declarations) -> Iterator[Fault]:
    """List template folders that no type uses, unless their type could not be read."""
    if any(source.faults for source in folder.types):
        return
    used = {each.template_folder for each in declarations.values() if each.type.upgrade is None}
    named = {name for source in folder.types if isinstance(source.value, dict) for name in source.value}
    faulty = named - {name for name, _ in declarations}
    reported: set[str] = set()
    for file in folder.templates:
        if file.folder not in used | reported and file.folder.partition("@")[0] not in faulty:
            reported.add(file.folder)
            advice = "declare the type or delete the folder"
            message = f"no type uses the folder templates/{file.folder}; {advice}"
            yield Fault(field=file.source.location(1), code="stray", message=message)


def _position(fault: Fault) -> tuple[str, int]:
    path, _, line = fault.field.rpartition(":")
    return path, int(line)
