import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).parents[2]
LONGEST = 100.0


@pytest.fixture
def folder() -> Iterator[Path]:
    """Give an example a place for its temporary files, and see that it leaves nothing behind."""
    with tempfile.TemporaryDirectory(prefix="tocsin-told-") as made:
        place = Path(made)
        # As root, Postgres runs as a user of its own, who must be able to enter.
        place.chmod(0o755)
        yield place
        assert not list(place.glob("tocsin-*"))
        assert not [process for process in psutil.process_iter() if _works_in(place, process)]


@pytest.fixture
def start(folder: Path) -> Callable[[str], subprocess.Popen[str]]:
    """Start an example as a newcomer does, at eighty columns."""

    def started(name: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", f"examples.{name}"],
            cwd=ROOT,
            env={**os.environ, "TMPDIR": str(folder), "COLUMNS": "80", "PYTHONUNBUFFERED": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    return started


@pytest.fixture
def told(start: Callable[[str], subprocess.Popen[str]]) -> Callable[[str], str]:
    """Run an example to its end and give what it said."""

    def said_by(name: str) -> str:
        with start(name) as process:
            try:
                said, complained = process.communicate(timeout=LONGEST)
            finally:
                process.terminate()
        assert process.returncode == 0, said + complained
        assert not complained
        assert all(len(line) <= 80 for line in said.splitlines())
        return said

    return said_by


def _works_in(place: Path, process: psutil.Process) -> bool:
    try:
        return process.environ().get("TMPDIR") == str(place)
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return False
