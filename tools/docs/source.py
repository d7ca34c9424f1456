"""The source tree: modules, parts, layers and imports."""

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "tocsin"


def modules() -> Iterator[tuple[str, ast.Module]]:
    """List every module of Tocsin by its dotted name, in order."""
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE.parent).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        yield name, ast.parse(path.read_text("utf-8"))


def part_of(module: str) -> str:
    """Return the part of Tocsin that a module belongs to: its top-level folder or module."""
    return module.split(".", 2)[1] if "." in module else ""


def layers() -> list[list[str]]:
    """Read the layers of import-linter's contract, the topmost first."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    contracts = project["tool"]["importlinter"]["contracts"]
    declared = next(contract for contract in contracts if contract["type"] == "layers")["layers"]
    return [[part_of(name.strip()) for name in layer.split("|")] for layer in declared]


def imports() -> dict[str, set[str]]:
    """Find which part imports which, from the import statements themselves."""
    found: dict[str, set[str]] = {name: set() for layer in layers() for name in layer}
    for name, tree in modules():
        part = part_of(name)
        if part not in found:
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tocsin."):
                found[part] |= {part_of(str(node.module))} & found.keys() - {part}
    return found


def direct(edges: dict[str, set[str]]) -> dict[str, set[str]]:
    """Remove every import that another path of imports implies."""
    return {
        part: {
            target
            for target in targets
            if not any(target in _reachable(edges, other) for other in targets - {target})
        }
        for part, targets in edges.items()
    }


def _reachable(edges: dict[str, set[str]], start: str) -> set[str]:
    seen: set[str] = set()
    waiting = [start]
    while waiting:
        for target in edges[waiting.pop()] - seen:
            seen.add(target)
            waiting.append(target)
    return seen
