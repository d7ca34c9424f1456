import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.examples.running import example_folder, start_example

LONGEST = 100.0


@pytest.fixture
def folder() -> Iterator[Path]:
    with example_folder() as place:
        yield place


@pytest.fixture
def start(folder: Path) -> Callable[[str], subprocess.Popen[str]]:
    """Start an example as a newcomer does."""
    return partial(start_example, folder=folder)


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
