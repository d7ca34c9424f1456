"""Every test that the page of faults names exists."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "explanation" / "faults.md"
NAMED = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE.read_text())


def test_every_fault_names_its_test() -> None:
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| ") and "fault |" not in line]

    assert len(rows) == len(NAMED) > 50


@pytest.mark.parametrize(("path", "name"), NAMED)
def test_a_test_that_is_named_exists(path: str, name: str) -> None:
    assert re.search(rf"def {name}\(", (ROOT / path).read_text())
