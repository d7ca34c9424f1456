"""The use of an embedded database by the processes of a tree, which outlive a parent that is killed."""

import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

VARIABLE = "_TOCSIN_EMBEDDED_IN"
"""Holds the data directory of the database that the parent of a process runs."""


def users_file(data_dir: Path) -> Path:
    """Return the file that every process locks while it uses the server of a data directory."""
    return data_dir / "postgres.users"


def embedded_of_parent(environment: Mapping[str, str] = os.environ) -> Path | None:
    """Return the data directory of the database that the parent of this process runs, if it runs one."""
    given = environment.get(VARIABLE)
    return Path(given) if given else None


@contextmanager
def shared_use(data_dir: Path | None) -> Iterator[None]:
    """Keep others from stopping the server of a data directory, if there is one."""
    if data_dir is None:
        yield
        return
    with users_file(data_dir).open("a") as use:
        fcntl.flock(use, fcntl.LOCK_SH)
        yield
