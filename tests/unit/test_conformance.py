"""The pages of conformance name tests that exist; that of galaxy names every test of the black-box suite."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GALAXY, FISA = "galaxy-conformance.md", "fisa-conformance.md"
OWN = Path("tests/blackbox/galaxy")
FEWEST = {GALAXY: 50, FISA: 30}


def page(name: str) -> str:
    return (ROOT / "docs" / "reference" / name).read_text("utf-8")


def names_in(path: Path) -> set[str]:
    tree = ast.parse((ROOT / path).read_text("utf-8"))
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {each.name for each in tree.body if isinstance(each, functions) and each.name.startswith("test_")}


def named_tests(name: str) -> set[tuple[Path, str]]:
    """Return the file and the name of every test that a page has; the name is empty for a whole file."""
    named = set()
    for file, test in re.findall(r"`([\w/]*test_\w+\.py)(?:::(\w+))?`", page(name)):
        path = Path(file) if "/" in file else OWN / file
        named.add((path, test))
    return named


@pytest.mark.parametrize("name", FEWEST)
def test_every_test_that_a_page_names_exists(name: str) -> None:
    named = named_tests(name)

    missing = [
        f"{path}::{test}"
        for path, test in sorted(named)
        if not (ROOT / path).is_file() or (test and test not in names_in(path))
    ]
    assert missing == []
    assert len(named) > FEWEST[name]


def test_every_test_of_the_black_box_suite_is_on_its_page() -> None:
    own = {
        (path.relative_to(ROOT), name)
        for path in (ROOT / OWN).glob("test_*.py")
        for name in names_in(path.relative_to(ROOT))
    }

    assert sorted(f"{path}::{name}" for path, name in own - named_tests(GALAXY)) == []


@pytest.mark.parametrize("name", FEWEST)
def test_every_row_of_a_page_has_a_test(name: str) -> None:
    rows = [line for line in page(name).splitlines() if line.startswith("| ")]
    rules = [row for row in rows if not row.startswith(("| rule |", "| subject |", "| line |"))]

    assert [row for row in rules if "test_" not in row] == []
