"""The modules that a handler imports, found by reading their source."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import tocsin

SOURCE = Path(tocsin.__file__).parent
ROOT_PACKAGE = tocsin.__name__


def imported_from(*roots: str) -> tuple[dict[str, Path], set[str]]:
    """Return the modules of Tocsin that some modules import, by file, and the other packages they need.

    Imports within functions are left out: a module that a handler imports only then is one of the roots.
    """
    found: dict[str, Path] = {}
    packages: set[str] = set()
    waiting = list(roots)
    while waiting:
        name = waiting.pop()
        path = _path_of(name)
        if name in found or path is None:
            continue
        found[name] = path
        waiting += _parents(name)
        for target in _imports(ast.parse(path.read_text("utf-8"))):
            top = target.partition(".")[0]
            if top == ROOT_PACKAGE:
                waiting.append(target)
            elif top not in sys.stdlib_module_names:
                packages.add(top)
    return found, packages


def _path_of(name: str) -> Path | None:
    """Return the file of a module, or None if the name is that of something within one."""
    base = SOURCE.parent.joinpath(*name.split("."))
    for path in (base.with_suffix(".py"), base / "__init__.py"):
        if path.is_file():
            return path
    return None


def _parents(name: str) -> list[str]:
    parts = name.split(".")
    return [".".join(parts[:length]) for length in range(1, len(parts))]


def _imports(tree: ast.AST) -> Iterator[str]:
    """List what is imported when a module is: its own statements, and those of its classes and branches."""
    for node in ast.iter_child_nodes(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                continue
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=str(module), names=names):
                yield module
                # What is imported from a package may be one of its modules.
                yield from (f"{module}.{alias.name}" for alias in names)
            case _:
                yield from _imports(node)
