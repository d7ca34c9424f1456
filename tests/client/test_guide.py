"""The guide's Python is what a user with strict types may write, and its tests pass as they stand."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tocsin.catalog.load import shipped_catalog

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "client.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```$", GUIDE.read_text("utf-8"), re.MULTILINE | re.DOTALL)


def test_its_code_has_the_types_it_claims(tmp_path: Path) -> None:
    for number, block in enumerate(BLOCKS):
        (tmp_path / f"block_{number}.py").write_text(block)
    wrong = "from tocsin.client import Tocsin\nTocsin('http://a', 'k').send('t', user=['42'])\n"
    (tmp_path / "wrong.py").write_text(wrong)

    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), "."],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    errors = [line for line in checked.stdout.splitlines() if ": error:" in line]
    assert len(errors) == 1, checked.stdout + checked.stderr
    assert re.match(r'wrong.py:2: .*"users"', errors[0])


@pytest.mark.timeout(180)
def test_its_tests_pass_in_an_application_with_types_of_its_own(tmp_path: Path) -> None:
    tests = [block for block in BLOCKS if "def test_" in block]
    for number, block in enumerate([*tests, OWN_TYPE]):
        (tmp_path / f"test_block_{number}.py").write_text(block)
    (tmp_path / "pytest.ini").write_text("[pytest]\ntocsin_catalog = notifications\n")
    _write_catalog(tmp_path / "notifications")

    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "."],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert run.returncode == 0, run.stdout + run.stderr
    assert f"{len(tests) + 1} passed" in run.stdout


OWN_TYPE = """
def test_the_type_of_this_application_is_known(tocsin_server):
    with tocsin_server.client() as tocsin:
        explained = tocsin.explain("signed_up", users=["42"], payload={"customer_name": "Grace"})
        assert explained.type == "signed_up"
"""


def _write_catalog(folder: Path) -> None:
    """Write the shipped catalog with one of its types under another name as well."""
    shutil.copytree(shipped_catalog(), folder)
    declared = (folder / "types" / "new_customer.yaml").read_text()
    (folder / "types" / "signed_up.yaml").write_text(declared.replace("new_customer", "signed_up"))
    shutil.copytree(folder / "templates" / "new_customer", folder / "templates" / "signed_up")
