"""The files of a catalog folder: `types/*.yaml` and `templates/<type>/<locale>/<channel>.<part>.j2`."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

import msgspec

from tocsin.catalog.source import YamlSource, read_source
from tocsin.catalog.templates.jinja import TemplateSource
from tocsin.domain.faults import Fault

_HTML_PART = "html"
_FINGERPRINT = 12


class TemplateFile(msgspec.Struct, frozen=True):
    """One template file, with what its path says about it."""

    folder: str
    locale: str
    channel: str
    part: str
    source: TemplateSource


class Folder(msgspec.Struct, frozen=True):
    """Every file of a catalog folder, the faults of those that cannot be read, and a hash of all contents."""

    types: tuple[YamlSource, ...]
    templates: tuple[TemplateFile, ...]
    faults: tuple[Fault, ...]
    fingerprint: str


def read_folder(root: Path) -> Folder:
    """Read every file of a catalog folder."""
    reader = _Reader(root)
    types = tuple(source for path in _files(root / "types") if (source := reader.source(path)))
    if not types and not reader.faults:
        message = f"no types in {root}; a catalog has at least one file types/<name>.yaml"
        reader.faults.append(Fault(field="types:1", code="empty", message=message))
    templates = tuple(file for path in _files(root / "templates") if (file := reader.template(path)))
    return Folder(types, templates, tuple(reader.faults), reader.content.hexdigest()[:_FINGERPRINT])


def catalog_files(root: Path) -> list[Path]:
    """List the files that a catalog consists of."""
    return [*_files(root / "types"), *_files(root / "templates")]


def _files(folder: Path) -> Iterator[Path]:
    """List the files below a folder, without those of editors and systems (`.DS_Store`, `x~`)."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.name.startswith(".") and not path.name.endswith("~"):
            yield path


class _Reader:
    """Reads single files and collects their faults."""

    def __init__(self, root: Path) -> None:
        self.faults: list[Fault] = []
        self.content = hashlib.sha256()
        self._root = root

    def source(self, path: Path) -> YamlSource | None:
        if path.suffix not in {".yaml", ".yml"}:
            message = "a file of types is named types/<name>.yaml; rename or move this file"
            self._fault(path, "name", message)
            return None
        text = self._text(path)
        return None if text is None else read_source(self._name(path), text)

    def template(self, path: Path) -> TemplateFile | None:
        match path.relative_to(self._root / "templates").parts, path.name.split("."):
            case (folder, locale, _), (channel, part, "j2"):
                text = self._text(path)
                if text is None:
                    return None
                source = TemplateSource(self._name(path), text, html=part == _HTML_PART, locale=locale)
                return TemplateFile(folder, locale, channel, part, source)
            case _:
                form = "templates/<type>/<locale>/<channel>.<part>.j2"
                self._fault(path, "name", f"a template is named {form}; rename or move this file")
                return None

    def _text(self, path: Path) -> str | None:
        """Read a file. One that is not UTF-8 is a fault, and is still checked for other faults."""
        try:
            content = path.read_bytes()
        except OSError as error:
            self._fault(path, "unreadable", f"the file cannot be read: {error.strerror}")
            return None
        # Lengths keep two files apart whose names and contents run into each other.
        self.content.update(f"{self._name(path)}\0{len(content)}\0".encode() + content)
        try:
            return content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = content[: error.start].count(b"\n") + 1
            self._fault(path, "unreadable", "this is not UTF-8; save the file as UTF-8", line)
            return content.decode("utf-8-sig", "replace")

    def _name(self, path: Path) -> str:
        return path.relative_to(self._root).as_posix()

    def _fault(self, path: Path, code: str, message: str, line: int = 1) -> None:
        self.faults.append(Fault(field=f"{self._name(path)}:{line}", code=code, message=message))
