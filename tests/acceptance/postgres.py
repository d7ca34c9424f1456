"""The embedded Postgres as something that can die."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import psutil

from tests.databases import open_folder


def postmaster(data_dir: Path) -> psutil.Process | None:
    """Find the server of a data directory, if one runs."""
    try:
        pid = int((data_dir / "postgres" / "postmaster.pid").read_text().splitlines()[0])
        found = psutil.Process(pid)
        return None if found.status() == psutil.STATUS_ZOMBIE else found
    except (FileNotFoundError, IndexError, ValueError, psutil.NoSuchProcess):
        # The number of a server that prepares the folder is negative, and none to psutil.
        return None


def postmasters(folder: Path) -> list[int]:
    """List the process ids of the servers whose data directory is the folder, or below it."""
    found = [postmaster(left.parent.parent) for left in folder.rglob("postgres/postmaster.pid")]
    return [server.pid for server in found if server]


def kill_postgres(data_dir: Path) -> None:
    """Kill the server and everything it started, as a power cut of its machine would."""
    server = postmaster(data_dir)
    assert server is not None
    # Halted first, it cannot start a process that nobody would kill.
    server.suspend()
    dying = [*server.children(recursive=True), server]
    for process in dying:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(dying, timeout=10)


@contextlib.contextmanager
def mortal_folder() -> Iterator[Path]:
    """Give a data directory; servers that were left running in it or below end with the test."""
    with open_folder() as folder:
        try:
            yield folder
        finally:
            for left in folder.rglob("postgres/postmaster.pid"):
                if postmaster(left.parent.parent):
                    kill_postgres(left.parent.parent)
