"""Docstrings open with a plain verb or noun, not with one of the words that say nothing."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import tocsin

SOURCE = Path(tocsin.__file__).parent
VAGUE = re.compile(r"(?:Tell|Give|Name|Say|Let|Take in|Hand on|Know)s?\b")
PARTS = sorted(
    path.name for path in SOURCE.iterdir() if path.suffix in {"", ".py"} and path.name != "__pycache__"
)


def vague_docstrings(path: Path) -> Iterator[str]:
    """List the docstrings of a module that open with a vague verb."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            docstring = ast.get_docstring(node) or ""
            if VAGUE.match(docstring):
                yield f"{path.relative_to(SOURCE)}: {docstring.splitlines()[0]}"


@pytest.mark.parametrize("part", PARTS)
def test_no_docstring_opens_with_a_vague_verb(part: str) -> None:
    path = SOURCE / part
    modules = sorted(path.rglob("*.py")) if path.is_dir() else [path]
    assert modules
    assert [found for module in modules for found in vague_docstrings(module)] == []


@pytest.mark.parametrize("docstring", ["Tell when.", "Gives it.", "Take in the row."])
def test_a_vague_docstring_is_noticed(docstring: str) -> None:
    assert VAGUE.match(docstring)
