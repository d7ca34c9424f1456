"""Reading JSON bodies: into the struct asked for, or into every fault there is."""

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from types import NoneType, UnionType
from typing import Annotated, Any, ClassVar, Literal, TypeVar, Union, get_args, get_origin

import msgspec

from tocsin.api.http.problems import INVALID_BODY, MALFORMED_JSON, ProblemError, faulty
from tocsin.domain.faults import Fault

DEEPEST = 64
MOST_FAULTS = 50
MOST_ITEMS = 1_000
_LONGEST_FIELD = 200
_NUL = b"\\u0000"
_TOO_DEEP = Fault(field="$", code="too_deep", message=f"is nested more than {DEEPEST} levels deep")

T = TypeVar("T")

_decoders: dict[type[Any], msgspec.json.Decoder[Any]] = {}


class Checked(msgspec.Struct, frozen=True):
    """A body with rules that its types cannot express: for each field, what is wrong with a text."""

    checks: ClassVar[Mapping[str, Callable[[str], str | None]]] = {}

    def __post_init__(self) -> None:
        """Refuse what breaks a rule, as a wrong type would be refused."""
        for name, check in self.checks.items():
            value = getattr(self, name)
            if isinstance(value, str) and (message := check(value)):
                raise ValueError(message)


class Broken(msgspec.Struct, frozen=True):
    """The body is not JSON at all."""

    reason: str


class Faulty(msgspec.Struct, frozen=True):
    """The body is JSON, but not what was asked for."""

    faults: list[Fault]


def _decoder(kind: type[T]) -> msgspec.json.Decoder[T]:
    decoder = _decoders.get(kind)
    if decoder is None:
        decoder = _decoders[kind] = msgspec.json.Decoder(kind)
    return decoder


def decode(body: bytes, kind: type[T]) -> T:
    """Read a body or end the request with everything that is wrong with it."""
    return _or_end(read_body(body, kind))


def decode_outline(body: bytes, kind: type[T]) -> T:
    """Read a body whose parts are taken apart later, each by itself."""
    return _or_end(_read(body, kind))


def _or_end(read: T | Faulty | Broken) -> T:
    if isinstance(read, Broken):
        raise ProblemError(MALFORMED_JSON, read.reason)
    if isinstance(read, Faulty):
        raise faulty(INVALID_BODY, read.faults)
    return read


def read_body(body: bytes | msgspec.Raw, kind: type[T]) -> T | Faulty | Broken:
    """Read a body; faults are all of them, not just the first.

    The usual, good body is decoded once and straight. Only a bad one is taken apart, and only
    one that may be too deep or hold a NUL character, which Postgres cannot keep, is looked over.
    """
    raw = bytes(body)
    braces = raw.count(b"{") + raw.count(b"[")
    if braces <= DEEPEST and _NUL not in raw:
        return _read(raw, kind)
    anything = _read(raw, object)
    if isinstance(anything, Faulty | Broken):
        return anything
    if _depth_exceeds(anything):
        return Faulty([_TOO_DEEP])
    if nuls := list(islice(_nul_faults(anything, ""), MOST_FAULTS)):
        return Faulty(nuls)
    return _read(raw, kind)


def _read(raw: bytes, kind: type[T]) -> T | Faulty | Broken:
    try:
        try:
            value = _decoder(kind).decode(raw)
        except msgspec.ValidationError:
            return Faulty(list(islice(find_faults(msgspec.json.decode(raw), kind), MOST_FAULTS)))
    except RecursionError:
        return Faulty([_TOO_DEEP])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return Broken(_why_broken(raw, error))
    return value


def _why_broken(raw: bytes, error: Exception) -> str:
    if not raw.strip():
        return "The body is empty; a JSON object is expected."
    return f"The body is not JSON: {error}."


def _depth_exceeds(value: Any) -> bool:
    level = [value]
    for _ in range(DEEPEST + 1):
        containers = [inner for inner in level if isinstance(inner, dict | list)]
        if not containers:
            return False
        level = [
            inner
            for container in containers
            for inner in (container.values() if isinstance(container, dict) else container)
        ]
    return True


def _nul_faults(value: Any, path: str) -> Iterator[Fault]:
    match value:
        case str() if "\x00" in value:
            yield Fault(field=_shown(path), code="nul_character", message="holds a NUL character")
        case dict():
            for name, inner in value.items():
                inner_path = _join(path, name)
                yield from _nul_faults(name, inner_path)
                yield from _nul_faults(inner, inner_path)
        case list():
            for index, inner in enumerate(value):
                yield from _nul_faults(inner, f"{path}[{index}]")
        case _:
            return


def find_faults(value: Any, kind: Any, path: str = "") -> Iterator[Fault]:
    """Name every fault of a JSON value that should be of a kind, part by part."""
    plain = _without_none(kind, value)
    found = False
    for fault in _faults_of_parts(value, plain, path):
        found = True
        yield fault
    if not found:
        yield from _own_fault(value, kind, path)


def _faults_of_parts(value: Any, kind: Any, path: str) -> Iterator[Fault]:
    if isinstance(value, dict) and isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        yield from _faults_of_fields(value, kind, path)
    elif isinstance(value, list) and get_origin(kind) is list and get_args(kind) != (msgspec.Raw,):
        for index, inner in enumerate(islice(value, MOST_ITEMS)):
            yield from find_faults(inner, get_args(kind)[0], f"{path}[{index}]")


def _faults_of_fields(value: dict[str, Any], kind: type[msgspec.Struct], path: str) -> Iterator[Fault]:
    fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    checks = kind.checks if issubclass(kind, Checked) else {}
    for name, field in fields.items():
        inner_path = _join(path, name)
        if name not in value:
            if field.required:
                yield Fault(field=_shown(inner_path), code="missing", message="is required")
            continue
        inner = value[name]
        faults = list(find_faults(inner, field.type, inner_path))
        yield from faults
        if not faults and name in checks and isinstance(inner, str) and (message := checks[name](inner)):
            yield Fault(field=_shown(inner_path), code="invalid", message=message)
    if kind.__struct_config__.forbid_unknown_fields:
        for name in sorted(value.keys() - fields.keys()):
            yield Fault(
                field=_shown(_join(path, name)),
                code="unknown",
                message=f"is not known here; known are {', '.join(fields)}",
            )


def _own_fault(value: Any, kind: Any, path: str) -> Iterator[Fault]:
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        message, _, inner = str(error).partition(" - at `$")
        yield Fault(
            field=_shown(path + inner.removesuffix("`")) or "$",
            code="missing" if value is None else "invalid",
            message=_plain_words(message, kind),
        )


def _plain_words(message: str, kind: Any) -> str:
    choices = _without_none(kind, "")
    if get_origin(choices) is Literal:
        return f"must be one of {', '.join(map(str, get_args(choices)))}"
    if "matching regex" in message:
        return "has a character or a form that is not allowed here"
    return message[:1].lower() + message[1:]


def _without_none(kind: Any, value: Any) -> Any:
    """Strip what stands around the kind that matters: constraints, and None where a value is given."""
    while get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    if value is not None and get_origin(kind) in {Union, UnionType}:
        others = [member for member in get_args(kind) if member is not NoneType]
        if len(others) == 1:
            return _without_none(others[0], value)
    return kind


def _join(path: str, name: str) -> str:
    name = name or '""'
    return f"{path}.{name}" if path else name


def _shown(path: str) -> str:
    """Give a path that can be printed and stored, whatever the caller called its fields."""
    return "".join(character if character.isprintable() else "\ufffd" for character in path[:_LONGEST_FIELD])
