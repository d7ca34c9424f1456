"""Writes the files of a new type: its declaration and its first templates."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from tocsin.domain.catalog import PARTS, Channel
from tocsin.domain.faults import Fault

NAME = re.compile(r"[a-z][a-z0-9_-]*([.][a-z0-9_-]+)*")
CATEGORY = re.compile(r"[a-z][a-zA-Z0-9_-]*")
FIELD = re.compile(r"[a-z][a-zA-Z0-9_]*")
LONGEST_NAME = 100
LONGEST_CATEGORY = 64

KINDS: Mapping[str, Mapping[str, object]] = {
    "string": {"type": "string", "maxLength": 200},
    "integer": {"type": "integer"},
    "number": {"type": "number"},
    "boolean": {"type": "boolean"},
    "date": {"type": "string", "format": "date"},
    "date-time": {"type": "string", "format": "date-time"},
    "email": {"type": "string", "format": "email", "maxLength": 254},
    "uri": {"type": "string", "format": "uri", "pattern": "^https://", "maxLength": 500},
}
_URI_EXAMPLE = "https://example.com/"


class Field(msgspec.Struct, frozen=True):
    """A field of the payload, such as `due_on:date?`; a question mark means that it may be left out."""

    name: str
    kind: str = "string"
    required: bool = True


class NewType(msgspec.Struct, frozen=True, kw_only=True):
    """What a new type consists of."""

    name: str
    category: str
    channels: Sequence[Channel]
    locale: str
    fields: Sequence[Field]


def parse_field(text: str) -> Field | Fault:
    """Parse `name`, `name:type` or either with a question mark behind it."""
    name, _, kind = text.removesuffix("?").partition(":")
    if not FIELD.fullmatch(name) or len(name) > LONGEST_NAME:
        message = f"{text[:80]!r} does not begin with the name of a field, such as order_id"
        return Fault(field="--field", code="invalid", message=message)
    if kind and kind not in KINDS:
        message = f"{kind[:80]!r} is not a type of field; there are: {', '.join(KINDS)}"
        return Fault(field="--field", code="invalid", message=message)
    return Field(name, kind or "string", not text.endswith("?"))


def name_faults(name: str, category: str) -> Iterator[Fault]:
    """List what is wrong with the names of a new type and its category."""
    if not NAME.fullmatch(name) or len(name) > LONGEST_NAME:
        message = f"{name[:80]!r} is not a name: lower-case letters, digits, _ and -, parts joined by ."
        yield Fault(field="TYPE", code="invalid", message=message)
    if not CATEGORY.fullmatch(category) or len(category) > LONGEST_CATEGORY:
        message = f"{category[:80]!r} is not a category: letters, digits, _ and -, a lower-case one first"
        yield Fault(field="--category", code="invalid", message=message)


def files_of(new: NewType) -> dict[str, str]:
    """Return the text of each file by its path in the catalog."""
    files = {f"types/{new.name}.yaml": _declaration(new)}
    for channel in new.channels:
        for part in PARTS[channel].all:
            files[f"templates/{new.name}/{new.locale}/{channel}.{part}.j2"] = _template(new, part)
    return files


def write_files(folder: Path, files: Mapping[str, str]) -> None:
    """Write files that do not exist yet; raises FileExistsError before anything is written."""
    for path in files:
        if (folder / path).exists():
            raise FileExistsError(folder / path)
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        # Nobody else's file is overwritten, even if it came about meanwhile.
        with (folder / path).open("x", encoding="utf-8") as file:
            file.write(text)


def _declaration(new: NewType) -> str:
    lines = [
        f"{new.name}:",
        "  version: 1",
        f"  category: {new.category}",
        f"  channels: [{', '.join(new.channels)}]",
        f"  default_locale: {new.locale}",
        "  payload:",
        "    type: object",
        "    properties:" if new.fields else "    properties: {}",
    ]
    for field in new.fields:
        lines.append(f"      {field.name}:")
        lines += [f"        {key}: {json.dumps(value)}" for key, value in _schema(field).items()]
    required = ", ".join(field.name for field in new.fields if field.required)
    lines += [f"    required: [{required}]", "    additionalProperties: false"]
    return "\n".join(lines) + "\n"


def _schema(field: Field) -> dict[str, object]:
    schema = dict(KINDS[field.kind])
    if field.kind == "string":
        schema["examples"] = [field.name.replace("_", " ").capitalize()]
    if field.kind == "uri":
        schema["examples"] = [_URI_EXAMPLE]
    return schema


def _template(new: NewType, part: str) -> str:
    heading = re.sub(r"[._-]+", " ", new.name).capitalize()
    if part in {"title", "subject"}:
        return f"{heading}\n"
    if part == "html":
        rows = "\n".join(_line(field, "  <p>", "</p>") for field in new.fields)
        body = f"<body>\n  <h1>{heading}</h1>\n{rows}\n</body>"
        return f'<!DOCTYPE html>\n<html lang="{new.locale}">\n{body}\n</html>\n'
    return "\n".join(_line(field) for field in new.fields) + "\n" if new.fields else f"{heading}.\n"


def _line(field: Field, before: str = "", after: str = "") -> str:
    label = field.name.replace("_", " ").capitalize()
    text = f"{before}{label}: {{{{ {field.name} }}}}{after}"
    return text if field.required else f"{{% if {field.name} is defined %}}{text}{{% endif %}}"
