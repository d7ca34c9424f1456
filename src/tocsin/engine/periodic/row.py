"""From a row to an intent: templates filled with the columns of the row."""

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec
from jinja2 import TemplateError

from tocsin.catalog.templates.jinja import CompiledTemplate, NotTextError, TemplateSource, compile_template
from tocsin.domain.faults import Fault
from tocsin.domain.intent import Intent
from tocsin.engine.accept.answers import Unreadable
from tocsin.engine.periodic.source import read_intent

LONGEST_KEY = 200

Row: TypeAlias = Mapping[str, Any]
Fill: TypeAlias = Callable[[Row], Any]

_ONE_COLUMN = re.compile(r"\{\{\s*([A-Za-z_]\w*)\s*\}\}")


class RowError(Exception):
    """A template cannot be rendered with the values of a row."""


class Pattern(msgspec.Struct, frozen=True):
    """A value of a declaration, ready to be filled; `columns` are those that it uses."""

    fill: Fill
    columns: frozenset[str] = frozenset()


class IntentPattern(msgspec.Struct, frozen=True, kw_only=True):
    """The intent that every row of a scan becomes."""

    name: str
    key: Sequence[str]
    fields: Pattern

    @property
    def columns(self) -> frozenset[str]:
        """The columns that the query has to return."""
        return self.fields.columns | set(self.key)

    def intent(self, record: Row) -> Intent | Unreadable:
        """Build the intent of a row; one that cannot be built is returned as Unreadable, to be recorded."""
        row: Row = msgspec.to_builtins(dict(record), enc_hook=str)
        key = row_key(self.name, [row[column] for column in self.key])
        try:
            fields: dict[str, Any] = self.fields.fill(row)
        except RowError as error:
            fault = Fault(field="$", code="row", message=str(error))
            return Unreadable(faults=[fault], content=repr(row), idempotency_key=key)
        return read_intent(fields | {"idempotency_key": key})


def row_key(name: str, values: Sequence[Any]) -> str:
    """Return the idempotency key of a row, unique among all scans."""
    key = ":".join([name, *map(str, values)])
    if len(key) <= LONGEST_KEY and key.isprintable():
        return key
    return f"{name}:sha256:{hashlib.sha256(key.encode(errors='replace')).hexdigest()}"


def compile_pattern(value: Any, path: str, faults: list[Fault]) -> Pattern:
    """Compile a value; a text that is only `{{ column }}` keeps the type of the column's value."""
    match value:
        case str():
            return _text(value, path, faults)
        case dict():
            inner = {name: compile_pattern(each, path, faults) for name, each in value.items()}
            return Pattern(
                lambda row: {name: each.fill(row) for name, each in inner.items()},
                _columns(inner.values()),
            )
        case list():
            items = [compile_pattern(each, path, faults) for each in value]
            return Pattern(lambda row: [each.fill(row) for each in items], _columns(items))
        case _:
            return Pattern(lambda _: value)


def _columns(patterns: Iterable[Pattern]) -> frozenset[str]:
    return frozenset(column for pattern in patterns for column in pattern.columns)


def _text(text: str, path: str, faults: list[Fault]) -> Pattern:
    if one := _ONE_COLUMN.fullmatch(text.strip()):
        column = one[1]
        return Pattern(lambda row: row[column], frozenset({column}))
    if "{{" not in text and "{%" not in text:
        return Pattern(lambda _: text)
    compiled = compile_template(TemplateSource(path, text))
    if isinstance(compiled, Fault):
        faults.append(Fault(field=path, code=compiled.code, message=f"{text!r}: {compiled.message}"))
        return Pattern(lambda _: text)
    return Pattern(lambda row: _render(compiled, row), frozenset(compiled.names))


def _render(text: CompiledTemplate, row: Row) -> str:
    try:
        return text(row)
    except (TemplateError, NotTextError, TypeError, ValueError, ArithmeticError, LookupError) as error:
        raise RowError(f"{text.source.text!r} cannot be rendered: {error}") from error
