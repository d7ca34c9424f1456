"""The files of a catalog folder: `types/*.yaml` and `templates/<type>/<locale>/<channel>.<part>.j2`."""

from collections.abc import Iterator
from pathlib import Path

import msgspec

from tocsin.catalog.source import Source, read_source
from tocsin.catalog.templates.jinja import TemplateSource
from tocsin.domain.faults import Fault

_HTML_PART = "html"


class TemplateFile(msgspec.Struct, frozen=True):
    """One template, named by the folders it stands in."""

    folder: str
    locale: str
    channel: str
    part: str
    source: TemplateSource


class Folder(msgspec.Struct, frozen=True):
    """Everything a catalog folder holds."""

    types: tuple[Source, ...]
    templates: tuple[TemplateFile, ...]
    faults: tuple[Fault, ...]


def read_folder(root: Path) -> Folder:
    """Read every file of a catalog."""
    faults: list[Fault] = []
    types = []
    for path in _files(root / "types"):
        if path.suffix not in {".yaml", ".yml"}:
            message = "a file of types is named types/<name>.yaml; rename or move this file"
            faults.append(Fault(field=f"{_name(root, path)}:1", code="name", message=message))
        elif (text := _text(root, path, faults)) is not None:
            types.append(read_source(_name(root, path), text))
    if not types and not faults:
        message = f"no types in {root}; a catalog has at least one file types/<name>.yaml"
        faults.append(Fault(field="types:1", code="empty", message=message))
    templates = []
    for path in _files(root / "templates"):
        template = _template(root, path, faults)
        if template is not None:
            templates.append(template)
    return Folder(tuple(types), tuple(templates), tuple(faults))


def _files(folder: Path) -> Iterator[Path]:
    """List the files below a folder, but not what editors and systems leave behind (`.DS_Store`, `x~`)."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.name.startswith(".") and not path.name.endswith("~"):
            yield path


def _template(root: Path, path: Path, faults: list[Fault]) -> TemplateFile | None:
    match path.relative_to(root / "templates").parts, path.name.split("."):
        case (folder, locale, _), (channel, part, "j2"):
            text = _text(root, path, faults)
            if text is None:
                return None
            source = TemplateSource(_name(root, path), text, html=part == _HTML_PART, locale=locale)
            return TemplateFile(folder, locale, channel, part, source)
        case _:
            message = (
                "a template is named templates/<type>/<locale>/<channel>.<part>.j2; rename or move this file"
            )
            faults.append(Fault(field=f"{_name(root, path)}:1", code="name", message=message))
            return None


def _text(root: Path, path: Path, faults: list[Fault]) -> str | None:
    """Read a file; one that is not UTF-8 is a fault, and is read on for its other faults."""
    try:
        content = path.read_bytes()
    except OSError as error:
        message = f"the file cannot be read: {error.strerror}"
        faults.append(Fault(field=f"{_name(root, path)}:1", code="unreadable", message=message))
        return None
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        message = "this is not UTF-8; save the file as UTF-8"
        faults.append(Fault(field=f"{_name(root, path)}:{line}", code="unreadable", message=message))
        return content.decode("utf-8-sig", "replace")


def _name(root: Path, path: Path) -> str:
    return path.relative_to(root).as_posix()
