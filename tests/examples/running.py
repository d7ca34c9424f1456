"""Examples as a newcomer runs them: in a folder of their own, of which they leave nothing behind."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

ROOT = Path(__file__).parents[2]


@contextmanager
def example_folder() -> Iterator[Path]:
    """Give an example a place for its temporary files, and see that it leaves nothing behind."""
    with tempfile.TemporaryDirectory(prefix="tocsin-told-") as made:
        place = Path(made)
        # As root, Postgres runs as a user of its own, who must be able to enter.
        place.chmod(0o755)
        yield place
        assert not list(place.glob("tocsin-*"))
        assert not [process for process in psutil.process_iter() if _works_in(place, process)]


def start_example(name: str, folder: Path, *arguments: str) -> subprocess.Popen[str]:
    """Start an example at eighty columns."""
    return subprocess.Popen(
        [sys.executable, "-m", f"examples.{name}", *arguments],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(folder), "COLUMNS": "80", "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _works_in(place: Path, process: psutil.Process) -> bool:
    try:
        return process.environ().get("TMPDIR") == str(place)
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return False
