"""FlatBuffers tables: loads the code that flatc generated, and encodes payloads by it."""

import importlib
import pkgutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from flatbuffers import Builder

from tocsin.domain.errors import ProviderSetupError
from tocsin.providers.gateway_stream.layout import FLOATS, FlatTable, find_slot
from tocsin.providers.redis_streams.provider import EncodingError

FIRST_BYTES = 256
"""The size that a buffer begins with; it grows."""


class _Field(NamedTuple):
    """A field of the payload and the attribute of the table that holds it; `takes` is what it may be."""

    name: str
    attribute: str
    takes: tuple[type, ...]


class _Form(NamedTuple):
    """How the fields of one event are put into their table; `flat` packs one of texts and numbers only."""

    new: Callable[[], Any]
    fields: tuple[_Field, ...]
    flat: FlatTable | None


class Tables:
    """The tables of a schema by their full names, such as `notification.GameFinishedEvent`."""

    def __init__(self, given: str) -> None:
        self._modules = load_modules(given)
        self._forms: dict[tuple[str, tuple[str, ...]], _Form] = {}

    def encode(self, table: str, fields: tuple[str, ...], payload: Mapping[str, Any]) -> bytes:
        """Return the table with these fields of a payload as bytes, or raise EncodingError."""
        form = self._forms.get((table, fields)) or self._form(table, fields)
        values = []
        for name, _, takes in form.fields:
            value = payload.get(name)
            if takes is not FLOATS and type(value) is not str:
                value = _integral(value)
            if type(value) not in takes:
                raise EncodingError(_mismatch(table, name, value))
            values.append(value)
        try:
            return form.flat.pack(values) if form.flat else _bytes(_row(form, values))
        except Exception as error:
            raise EncodingError(_fault(table, form, payload)) from error

    def fault(self, table: str, fields: tuple[str, ...]) -> str | None:
        """Return why no payload can be encoded by a table and these fields; None if some can."""
        try:
            self._form(table, fields)
        except EncodingError as error:
            return str(error)
        return None

    def _form(self, table: str, fields: tuple[str, ...]) -> _Form:
        """Find the classes of a table and the attributes of its fields."""
        _, _, class_name = table.rpartition(".")
        module = self._modules.get(table)
        if module is None:
            raise EncodingError(f"gateway_stream.tables has no table {table}")
        new = getattr(module, f"{class_name}T", None)
        if new is None:
            raise EncodingError(f"the code of {table} was generated without --gen-object-api")
        reader, empty = getattr(module, class_name), vars(new())
        found = tuple(_field(table, name, reader, empty) for name in fields)
        slots = [find_slot(new(), field.attribute) for field in found]
        known = [slot for slot in slots if slot is not None]
        if len(known) < len(slots):
            form = _Form(new, found, None)
        else:
            taking = (field._replace(takes=slot.takes) for field, slot in zip(found, known, strict=True))
            form = _Form(new, tuple(taking), FlatTable(known))
        self._forms[table, fields] = form
        return form


def load_modules(given: str) -> Mapping[str, ModuleType]:
    """Import every module of a folder or of a package; raise ProviderSetupError."""
    folder = Path(given).expanduser()
    modules = _from_folder(folder.resolve()) if folder.is_dir() else _from_package(given)
    if not modules:
        raise ProviderSetupError(f"gateway_stream.tables: {given} has no code that flatc generated.")
    return modules


def _from_folder(folder: Path) -> Mapping[str, ModuleType]:
    files = [file.relative_to(folder) for file in sorted(folder.rglob("*.py"))]
    names = [".".join(file.with_suffix("").parts) for file in files if file.name != "__init__.py"]
    with _importable(folder, {name.partition(".")[0] for name in names}):
        return {name: _import(name) for name in names}


def _from_package(name: str) -> Mapping[str, ModuleType]:
    package = _import(name)
    inner = pkgutil.walk_packages(getattr(package, "__path__", ()), f"{name}.")
    return {each.name: _import(each.name) for each in inner if not each.ispkg}


def _import(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except Exception as error:
        message = f"gateway_stream.tables: {name} cannot be imported: {type(error).__name__}: {error}"
        raise ProviderSetupError(message) from error


@contextmanager
def _importable(folder: Path, roots: set[str]) -> Iterator[None]:
    """Import from a folder for the moment; afterwards other modules of these names are what they were.

    Generated modules import each other by the namespace of their schema, as modules of the top level.
    """
    hidden = _take_modules(roots)
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        _take_modules(roots)
        sys.modules.update(hidden)


def _take_modules(roots: set[str]) -> dict[str, ModuleType]:
    return {name: sys.modules.pop(name) for name in list(sys.modules) if name.partition(".")[0] in roots}


def _field(table: str, name: str, reader: Any, empty: Mapping[str, Any]) -> _Field:
    first, *rest = name.split("_")
    camel = first + "".join(part[:1].upper() + part[1:] for part in rest)
    # flatc writes an attribute that is a keyword of Python with an underscore.
    attribute = next((each for each in (camel, name, f"{camel}_", f"{name}_") if each in empty), None)
    if attribute is None:
        raise EncodingError(f"the table {table} has no field {name}")
    is_vector = hasattr(reader, f"{camel[:1].upper()}{camel[1:]}Length")
    return _Field(name, attribute, (list,) if is_vector else _scalars(empty[attribute]))


def _scalars(default: Any) -> tuple[type, ...]:
    """Return the types of JSON values that fit a field with this default."""
    match default:
        case bool():
            return (bool,)
        case int():
            return (int,)
        case float():
            return FLOATS
        case _:
            # A text, or a number that may be left out: the library checks which.
            return (str, int, float, bool)


def _integral(value: Any) -> Any:
    """Return a number without a fraction as an integer: in JSON `5.0` is the number `5`."""
    match value:
        case float() if value.is_integer():
            return int(value)
        case list():
            return [_integral(each) for each in value]
        case _:
            return value


def _row(form: _Form, values: Sequence[Any]) -> Any:
    row = form.new()
    for field, value in zip(form.fields, values, strict=True):
        setattr(row, field.attribute, value)
    return row


def _bytes(row: Any) -> bytes:
    builder = Builder(FIRST_BYTES)
    builder.Finish(row.Pack(builder))
    return bytes(builder.Output())


def _fault(table: str, form: _Form, payload: Mapping[str, Any]) -> str:
    """Find the field that cannot be encoded, by encoding each alone."""
    for name, attribute, _ in form.fields:
        row = form.new()
        setattr(row, attribute, _integral(payload[name]))
        try:
            _bytes(row)
        except Exception:  # noqa: BLE001 - the generated code may raise anything
            return _mismatch(table, name, payload[name])
    return f"the payload does not fit the table {table}"


def _mismatch(table: str, name: str, value: Any) -> str:
    if value is None:
        return f"the field {name} of {table} is missing"
    return f"the field {name} of {table} cannot hold this {type(value).__name__}"
