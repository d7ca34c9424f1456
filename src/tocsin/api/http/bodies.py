"""Decoding JSON bodies into a type, or into a list of every fault."""

import re
from collections.abc import Iterator
from enum import Enum
from functools import cache
from itertools import islice
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

import msgspec

from tocsin.api.http.problems import INVALID_BODY, MALFORMED_JSON, ProblemError, faults_problem
from tocsin.domain.faults import Fault
from tocsin.wire.checks import Checked

DEEPEST = 64
MOST_FAULTS = 50
MOST_ITEMS = 1_000
_LONGEST_FIELD = 200
NUL = b"\\u0000"
"""How a NUL character, which Postgres cannot store, is written in JSON."""
TOO_DEEP = Fault(field="$", code="too_deep", message=f"is nested more than {DEEPEST} levels deep")

_HALF_PAIR = re.compile(
    rb"(?<!\\)\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])"
    rb"|(?<!\\)(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F]"
)
_ITEM = msgspec.Raw(b"0")

T = TypeVar("T")


@cache
def _decoder(type_: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(type_)


def decode(body: bytes | msgspec.Raw, type_: type[T]) -> T:
    """Decode a body; raise a problem that it is not JSON, or one with all of its faults, not only the first.

    A valid body is decoded once. Only a faulty one is walked field by field, and only one that may be too
    deep or hold a NUL character, which Postgres cannot store, is searched for these.
    """
    raw = bytes(body)
    if not may_be_deep(raw) and NUL not in raw:
        return decode_outline(raw, type_)
    anything = decode_outline(raw, object)
    if _depth_exceeds(anything):
        raise faults_problem(INVALID_BODY, TOO_DEEP)
    if nuls := list(islice(_nul_faults(anything, ""), MOST_FAULTS)):
        raise faults_problem(INVALID_BODY, *nuls)
    return decode_outline(raw, type_)


def may_be_deep(raw: bytes) -> bool:
    """Return whether a body has enough braces and brackets to be nested too deep."""
    return raw.count(b"{") + raw.count(b"[") > DEEPEST


def decode_outline(raw: bytes, type_: type[T]) -> T:
    """Decode a body without a search for depth and NUL characters, as its parts are decoded later."""
    try:
        try:
            value: T = _decoder(type_).decode(raw)  # type: ignore[arg-type]  # every type is hashable
            if not isinstance(value, Checked) or value.passes():
                return value
        except msgspec.ValidationError:
            pass
        faults = list(islice(find_faults(msgspec.json.decode(raw), type_), MOST_FAULTS))
    except RecursionError:
        faults = [TOO_DEEP]
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ProblemError(MALFORMED_JSON, _why_broken(raw, error)) from None
    raise faults_problem(INVALID_BODY, *faults)


def _why_broken(raw: bytes, error: Exception) -> str:
    if not raw.strip():
        return "The body is empty; a JSON object is expected."
    if half := _HALF_PAIR.search(raw):
        return f"The body holds half of a surrogate pair, which is no text (byte {half.start()})."
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


def find_faults(value: Any, type_: Any, path: str = "") -> Iterator[Fault]:
    """List every fault of a JSON value that should have a type, part by part."""
    plain = _without_none(type_, value)
    found = False
    for fault in _faults_of_parts(value, plain, path):
        found = True
        yield fault
    if not found:
        yield from _own_fault(value, type_, path)


def _faults_of_parts(value: Any, type_: Any, path: str) -> Iterator[Fault]:
    if isinstance(value, dict) and isinstance(type_, type) and issubclass(type_, msgspec.Struct):
        yield from _faults_of_fields(value, type_, path)
    elif isinstance(value, list) and get_origin(type_) is list and not _is_undecoded(type_):
        for index, inner in enumerate(islice(value, MOST_ITEMS)):
            yield from find_faults(inner, get_args(type_)[0], f"{path}[{index}]")
    elif isinstance(value, dict) and get_origin(type_) is dict:
        for name, inner in islice(value.items(), MOST_ITEMS):
            yield from find_faults(inner, get_args(type_)[1], _join(path, name))


def _faults_of_fields(value: dict[str, Any], type_: type[msgspec.Struct], path: str) -> Iterator[Fault]:
    fields = {field.encode_name: field for field in msgspec.structs.fields(type_)}
    checks, part_checks = (type_.checks, type_.part_checks) if issubclass(type_, Checked) else ({}, {})
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
        if not faults and name in part_checks and inner is not None:
            yield from (_below(inner_path, fault) for fault in part_checks[name](inner))
    if type_.__struct_config__.forbid_unknown_fields:
        for name in sorted(value.keys() - fields.keys()):
            yield Fault(
                field=_shown(_join(path, name)),
                code="unknown",
                message=f"is not known here; known are {', '.join(fields)}",
            )


def _own_fault(value: Any, type_: Any, path: str) -> Iterator[Fault]:
    if isinstance(value, list) and _is_undecoded(_without_none(type_, value)):
        # Whatever an item is, it is decoded later; its list may be too long or too short.
        value = [_ITEM] * len(value)
    try:
        msgspec.convert(value, type_)
    except msgspec.ValidationError as error:
        message, _, inner = str(error).partition(" - at `$")
        yield Fault(
            field=_shown(path + inner.removesuffix("`")) or "$",
            code="missing" if value is None else "invalid",
            message=plain_message(message, type_),
        )


def _is_undecoded(type_: Any) -> bool:
    """Return whether a type is a list of items that are decoded later."""
    return bool(get_args(type_) == (msgspec.Raw,))


def plain_message(message: str, type_: Any) -> str:
    """Return the message of a ValidationError in the words of a caller; choices are listed."""
    choices = _without_none(type_, "")
    if get_origin(choices) is Literal:
        return f"must be one of {', '.join(map(str, get_args(choices)))}"
    if isinstance(choices, type) and issubclass(choices, Enum):
        return f"must be one of {', '.join(str(member.value) for member in choices)}"
    if "matching regex" in message:
        return "has a character or a form that is not allowed here"
    return message[:1].lower() + message[1:]


def _without_none(type_: Any, value: Any) -> Any:
    """Return a type without its constraints, and without None where a value is given."""
    while get_origin(type_) is Annotated:
        type_ = get_args(type_)[0]
    if value is not None and get_origin(type_) in {Union, UnionType}:
        others = [member for member in get_args(type_) if member is not NoneType]
        if len(others) == 1:
            return _without_none(others[0], value)
    return type_


def _below(path: str, fault: Fault) -> Fault:
    """Return a fault of a part of the value at a path."""
    field = _join(path, fault.field) if fault.field else path
    return Fault(field=_shown(field), code=fault.code, message=fault.message)


def _join(path: str, name: str) -> str:
    name = name or '""'
    return f"{path}.{name}" if path else name


def _shown(path: str) -> str:
    """Return a path that can be printed and stored, whatever names it holds."""
    return "".join(character if character.isprintable() else "\ufffd" for character in path[:_LONGEST_FIELD])
