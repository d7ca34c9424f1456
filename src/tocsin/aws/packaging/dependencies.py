"""The files of the packages that a function brings along: those installed here, or those of wheels."""

import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution, packages_distributions
from pathlib import Path, PurePosixPath

from tocsin.aws.packaging.target import Target
from tocsin.domain.errors import TocsinError

PROVIDED = frozenset({"boto3", "botocore", "dateutil", "jmespath", "s3transfer", "six", "urllib3"})
"""The packages that every Python runtime of Lambda has."""

_NO_USE = {".pyc", ".pyi", ".pyx", ".pxd", ".pxi", ".c", ".h"}
_OF_INSTALLERS = {"RECORD", "INSTALLER", "REQUESTED", "direct_url.json"}
_PIP_SECONDS = 300
_ELSEWHERE = "name a folder of wheels with --wheels, or let pip fetch them with --download"


class PackagingError(TocsinError):
    """A package cannot be made."""


def installed_files(packages: Iterable[str], target: Target) -> Iterator[tuple[str, bytes]]:
    """Read the files of packages installed here, or raise PackagingError if they do not run there."""
    if not target.is_this_machine:
        raise PackagingError(f"The packages installed here are not for {target}: {_ELSEWHERE}.")
    for name in sorted(packages):
        found = _distribution_of(name)
        tags = [line.split(":", 1)[1].strip() for line in _wheel_lines(found) if line.startswith("Tag:")]
        if not target.runs(tags):
            raise PackagingError(f"{name} was built on this machine and may not run on AWS: {_ELSEWHERE}.")
        for file in found.files or ():
            path = PurePosixPath(file)
            if ".." not in path.parts and _is_used(path):
                yield str(path), Path(str(found.locate_file(file))).read_bytes()


def wheel_files(packages: Iterable[str], target: Target, folder: Path | None) -> Iterator[tuple[str, bytes]]:
    """Read the files of wheels for a target, of the versions installed here, from a folder or by pip."""
    wanted = [f"{found.name}=={found.version}" for found in map(_distribution_of, sorted(packages))]
    with tempfile.TemporaryDirectory() as fetched:
        _fetch(wanted, target, folder, Path(fetched))
        for wheel in sorted(Path(fetched).glob("*.whl")):
            with zipfile.ZipFile(wheel) as archive:
                for name in archive.namelist():
                    if not name.endswith("/") and _is_used(PurePosixPath(name)):
                        yield name, archive.read(name)


def _fetch(wanted: list[str], target: Target, folder: Path | None, into: Path) -> None:
    """Have pip choose the wheels: it knows which tags fit."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    command += ["--only-binary=:all:", "--no-deps", "--implementation=cp", f"--dest={into}"]
    command += [f"--python-version={target.python[0]}.{target.python[1]}"]
    command += [f"--platform={each}" for each in target.wheel_platforms]
    command += [] if folder is None else ["--no-index", f"--find-links={folder}"]
    try:
        done = subprocess.run(  # noqa: S603 - pip of this interpreter
            [*command, *wanted], capture_output=True, text=True, timeout=_PIP_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise PackagingError(f"pip did not end within {_PIP_SECONDS} seconds.") from None
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["no reason was given"]
        raise PackagingError(f"pip has no wheels of {', '.join(wanted)} for {target}: {lines[-1]}")


def _distribution_of(package: str) -> Distribution:
    names = packages_distributions().get(package, [package])
    try:
        return distribution(names[0])
    except PackageNotFoundError:
        raise PackagingError(f"{package} is not installed here; the function needs it.") from None


def _wheel_lines(found: Distribution) -> list[str]:
    return (found.read_text("WHEEL") or "").splitlines()


def _is_used(path: PurePosixPath) -> bool:
    if path.suffix in _NO_USE or "__pycache__" in path.parts:
        return False
    return not (path.parts[0].endswith(".dist-info") and path.name in _OF_INSTALLERS)
