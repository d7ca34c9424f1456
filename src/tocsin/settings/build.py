"""Builds sections from a file and from variables, and finds every fault in them."""

import difflib
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args, get_origin

import msgspec
from msgspec import UNSET
from msgspec.inspect import CollectionType, DictType, EnumType, LiteralType, Metadata, UnionType

from tocsin.domain.catalog import variable_form
from tocsin.domain.errors import SettingsError
from tocsin.domain.faults import Fault
from tocsin.profiles.profile import VARIABLE

PREFIX = "TOCSIN_"


NOT_SETTINGS = {"TOCSIN_CONFIG", "TOCSIN_TEST_DATABASE_URL", "TOCSIN_SERVER", "TOCSIN_KEY", VARIABLE}


def setting_name(path: tuple[str, ...]) -> str:
    """Return the name of a setting, with its environment variable."""
    return f"{'.'.join(path)} ({PREFIX}{'__'.join(path).upper()})"


class _FromEnvironment(str):
    """A value from the environment, which is text whatever its type is to be."""

    __slots__ = ()


def read_file(chosen: Path | None) -> dict[str, Any]:
    """Read the chosen file, or `tocsin.toml` if it exists; raise SettingsError if it cannot be read."""
    file = chosen or Path("tocsin.toml")
    if not file.exists() and chosen is None:
        return {}
    try:
        return tomllib.loads(file.read_text())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        fault = Fault(field=str(file), code="unreadable", message=f"cannot be read: {error}")
        raise SettingsError("The settings cannot be used:", [fault]) from error


def override(tree: dict[str, Any], environ: Mapping[str, str], faults: list[Fault]) -> None:
    """Override the file with variables: TOCSIN_HTTP__PORT becomes http.port."""
    for name, value in environ.items():
        if not name.startswith(PREFIX) or name in NOT_SETTINGS:
            continue
        *parents, leaf = name.removeprefix(PREFIX).lower().split("__")
        branch = tree
        for parent in parents:
            below = branch.setdefault(parent, {})
            if not isinstance(below, dict):
                faults.append(
                    Fault(field=name, code="unknown", message=f"{parent} holds no further settings")
                )
                break
            branch = below
        else:
            branch[leaf] = _FromEnvironment(value)


def by_type(section: Mapping[str, Any]) -> dict[str, Any]:
    """Return a section with a setting for each type: levels are the parts of the name of a type.

    A variable goes before the file whatever form the name has there: see `variable_form`.
    """
    flat = dict(_flattened(section, ()))
    overridden = {variable_form(name) for name, value in flat.items() if isinstance(value, _FromEnvironment)}
    return {
        name: value
        for name, value in flat.items()
        if isinstance(value, _FromEnvironment) or variable_form(name) not in overridden
    }


def _flattened(section: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    for name, value in section.items():
        if isinstance(value, Mapping):
            yield from _flattened(value, (*path, name))
        else:
            yield ".".join((*path, name)), value


def build(type_: Any, value: Any, path: tuple[str, ...], faults: list[Fault]) -> Any:
    """Convert a value, section by section and field by field, so that every fault is found."""
    section, named = _section(type_), _named_sections(type_)
    if section is None and named is None:
        try:
            return _convert(value, type_)
        except msgspec.ValidationError as error:
            message = f"{error}".replace("`", "").partition(" - at")[0]
            faults.append(Fault(field=setting_name(path), code="invalid", message=_explained(message, type_)))
            return UNSET
    if not isinstance(value, Mapping):
        message = "must be a section" + (" with a section for each name" if named else "")
        faults.append(Fault(field=setting_name(path), code="type", message=message))
        return UNSET
    if section is None:
        return _valid({name: build(named, below, (*path, name), faults) for name, below in value.items()})
    fields = {field.name: field.type for field in msgspec.structs.fields(section)}
    faults += (_unknown((*path, name), fields) for name in value if name not in fields)
    known = ((name, below) for name, below in value.items() if name in fields)
    return section(
        **_valid({name: build(fields[name], below, (*path, name), faults) for name, below in known})
    )


def _explained(message: str, type_: Any) -> str:
    """Return the message of msgspec about a value, with those that are allowed or an example of one."""
    kinds = list(_kinds(msgspec.inspect.type_info(type_)))
    allowed = [str(value) for kind in kinds if isinstance(kind, LiteralType) for value in kind.values]
    allowed += (str(member.value) for kind in kinds if isinstance(kind, EnumType) for member in kind.cls)
    if "enum value" in message and allowed:
        return f"{message}; it must be one of {', '.join(allowed)}"
    examples = [
        str(example)
        for kind in kinds
        if isinstance(kind, Metadata)
        for example in (kind.extra_json_schema or {}).get("examples", ())
    ]
    if "matching regex" in message and examples:
        return f"must be such as {examples[0]}"
    return message


def _kinds(kind: msgspec.inspect.Type) -> Iterator[msgspec.inspect.Type]:
    """List a type and those within it."""
    yield kind
    match kind:
        case Metadata(type=below) | CollectionType(item_type=below) | DictType(value_type=below):
            yield from _kinds(below)
        case UnionType(types=types):
            for below in types:
                yield from _kinds(below)


def _valid(built: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out what has faults: its default is checked together with the other settings."""
    return {name: value for name, value in built.items() if value is not UNSET}


def _section(type_: Any) -> type[msgspec.Struct] | None:
    return type_ if isinstance(type_, type) and issubclass(type_, msgspec.Struct) else None


def _named_sections(type_: Any) -> type[msgspec.Struct] | None:
    """Return the type of the sections where any number of them may be set, each under a name of its own."""
    return _section(get_args(type_)[1]) if get_origin(type_) is dict else None


def _convert(value: Any, expected: Any) -> Any:
    if isinstance(value, Mapping):
        _, each = get_args(expected)
        return {key: _convert(item, each) for key, item in value.items()}
    if isinstance(value, _FromEnvironment) and get_origin(expected) is list:
        value = [part.strip() for part in value.split(",") if part.strip()]
    textual = isinstance(value, _FromEnvironment)
    return msgspec.convert(str(value) if textual else value, expected, strict=not textual, dec_hook=_as_path)


def _as_path(type_: type, value: Any) -> Any:
    if type_ is Path and isinstance(value, str) and value:
        return Path(value).expanduser()
    raise msgspec.ValidationError("Expected a path")


def _unknown(path: tuple[str, ...], fields: Mapping[str, Any]) -> Fault:
    near = difflib.get_close_matches(path[-1], fields, n=1)
    hint = f"; did you mean {setting_name((*path[:-1], near[0]))}?" if near else ""
    return Fault(field=setting_name(path), code="unknown", message=f"there is no such setting{hint}")
