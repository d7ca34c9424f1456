from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
TESTS = Path(__file__).parent


@pytest.mark.parametrize("name", ["crm", "gym", "django_shop", "galaxy", "fisa"])
def test_a_readme_shows_what_its_example_prints(name: str) -> None:
    tested = (TESTS / f"test_{name}.py").read_text().split('"""')[1]

    assert tested in (EXAMPLES / name / "README.md").read_text()
