"""Writes the zip of a function: the same bytes for the same content, whenever it is made."""

import hashlib
import os
import stat
import zipfile
from collections.abc import Mapping
from enum import StrEnum
from io import BytesIO
from pathlib import Path

import msgspec

from tocsin.aws.packaging.dependencies import PROVIDED, PackagingError, installed_files, wheel_files
from tocsin.aws.packaging.modules import SOURCE, imported_from
from tocsin.aws.packaging.target import Target

LARGEST_BYTES = 10_000_000
DATABASE_MODULE = "tocsin.aws.functions.mobile.endpoints_database"

_EPOCH = (1980, 1, 1, 0, 0, 0)
_UNIX = 3
_REGULAR = 0o100_000
_READ, _RUN = 0o644, 0o755


class Function(StrEnum):
    """A function that can be packaged."""

    MOBILE = "mobile"
    WEB = "web"

    @property
    def module(self) -> str:
        """The module of its handler."""
        return f"tocsin.aws.delivery_{self}"

    @property
    def handler(self) -> str:
        """Its handler, as Lambda is told it."""
        return f"{self.module}.handler"


class Sources(msgspec.Struct, frozen=True, kw_only=True):
    """Where packages come from: this environment, unless a folder has wheels or pip may fetch them."""

    wheels: Path | None = None
    download: bool = False


class Package(msgspec.Struct, frozen=True, kw_only=True):
    """A package that was written."""

    file: str
    function: Function
    handler: str
    platform: str
    python: str
    packages: list[str]
    files: int
    bytes: int
    sha256: str


def write_package(
    function: Function, output: Path, target: Target, sources: Sources, *, database: bool = False
) -> Package:
    """Write the zip of a function, whole or not at all; raise PackagingError if it cannot be made.

    With `database` it finds endpoints in Postgres, for which it has a driver. Where the output is a link, the
    file that it leads to is written.
    """
    file = _replaceable(output)
    if database and function is not Function.MOBILE:
        raise PackagingError("Only the function for phones can read the database.")
    roots = [function.module] + ([DATABASE_MODULE] if database else [])
    modules, imported = imported_from(*roots)
    packages = sorted(imported - PROVIDED)
    if sources.wheels is not None or sources.download:
        found = wheel_files(packages, target, sources.wheels)
    else:
        found = installed_files(packages, target)
    files = {str(path.relative_to(SOURCE.parent)): path.read_bytes() for path in modules.values()}
    files |= dict(found)
    size, digest = _write(files, file)
    return Package(
        file=str(output),
        function=function,
        handler=function.handler,
        platform=target.platform,
        python=f"{target.python[0]}.{target.python[1]}",
        packages=packages,
        files=len(files),
        bytes=size,
        sha256=digest,
    )


def _replaceable(output: Path) -> Path:
    """Return the file that an output leads to, which is a regular one or not there yet."""
    file = Path(os.path.realpath(output))
    try:
        kind = file.lstat().st_mode
    except FileNotFoundError:
        return file
    except OSError as error:
        raise PackagingError(f"{output} cannot be written: {error.strerror}.") from None
    if not stat.S_ISREG(kind):
        # To replace a device or a pipe would take it from everybody else who uses it.
        raise PackagingError(f"{output} is there and is no regular file; choose another name.")
    return file


def _write(files: Mapping[str, bytes], output: Path) -> tuple[int, str]:
    """Write a zip with its names sorted and one time for all; return its size and its hash."""
    written = BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name in sorted(files):
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.create_system = _UNIX
            entry.external_attr = (_REGULAR | (_RUN if name.endswith(".so") else _READ)) << 16
            archive.writestr(entry, files[name])
    content = written.getvalue()
    if len(content) > LARGEST_BYTES:
        raise PackagingError(
            f"The package has {len(content):,} bytes; at most {LARGEST_BYTES:,} are allowed."
        )
    part = output.with_name(f".{output.name}.part")
    try:
        part.write_bytes(content)
        part.replace(output)
    except OSError as error:
        raise PackagingError(f"{output} cannot be written: {error.strerror}.") from None
    return len(content), hashlib.sha256(content).hexdigest()
