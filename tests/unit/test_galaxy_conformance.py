"""The page of conformance names tests that exist, and every test of the black-box suite."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "galaxy-conformance.md"
OWN = Path("tests/blackbox/galaxy")


def names_in(path: Path) -> set[str]:
    tree = ast.parse((ROOT / path).read_text("utf-8"))
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {each.name for each in tree.body if isinstance(each, functions) and each.name.startswith("test_")}


def named_tests() -> set[tuple[Path, str]]:
    """Return the file and the name of every test that the page has; the name is empty for a whole file."""
    named = set()
    for file, name in re.findall(r"`([\w/]*test_\w+\.py)(?:::(\w+))?`", PAGE.read_text("utf-8")):
        path = Path(file) if "/" in file else OWN / file
        named.add((path, name))
    return named


def test_every_test_that_the_page_names_exists() -> None:
    named = named_tests()

    missing = [
        f"{path}::{name}"
        for path, name in sorted(named)
        if not (ROOT / path).is_file() or (name and name not in names_in(path))
    ]
    assert missing == []
    assert len(named) > 50


def test_every_test_of_the_suite_is_on_the_page() -> None:
    own = {
        (path.relative_to(ROOT), name)
        for path in (ROOT / OWN).glob("test_*.py")
        for name in names_in(path.relative_to(ROOT))
    }

    assert sorted(f"{path}::{name}" for path, name in own - named_tests()) == []


def test_every_row_of_the_page_has_a_test() -> None:
    rows = [line for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| ")]
    rules = [row for row in rows if not row.startswith(("| rule |", "| subject |"))]

    assert [row for row in rules if "test_" not in row] == []
