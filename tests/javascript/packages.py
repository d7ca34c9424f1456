"""The packages of npm that tests compare Tocsin with; `make test` installs them beside this file."""

import shutil
from pathlib import Path

import pytest

_FOLDER = Path(__file__).parent


def package(name: str) -> Path:
    """Return the folder of a package, or leave the test out."""
    folder = _FOLDER / "node_modules" / name
    if not folder.is_dir():
        pytest.skip(f"LEFT OUT: no npm package {name}; run npm ci --prefix tests/javascript")
    return folder


def program(name: str, debian: str) -> str:
    """Return the path of a program, or leave the test out."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"LEFT OUT: no {name}; Debian has it in {debian}")
    return found
