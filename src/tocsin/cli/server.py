"""Finding the server that a command talks to: over HTTP, or by its database."""

import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

import msgspec

from tocsin.cli.target import Target
from tocsin.domain.errors import TocsinError

if TYPE_CHECKING:
    from tocsin.cli.remote import Remote
    from tocsin.settings.tree import Settings

_API_OF_A_TREE = ["-m", "tocsin.cli", "api", "--tied"]
_WHAT_TO_DO = (
    "Start one by `tocsin serve`, or name one: its address by --server URL --key KEY (TOCSIN_SERVER, "
    "TOCSIN_KEY), or its database by TOCSIN_DATABASE_URL."
)


class NoServerError(TocsinError):
    """There is no server to talk to, or there are several."""


class Database(msgspec.Struct, frozen=True):
    """A server that is reached by its database, and how to describe it."""

    settings: "Settings"
    url: str
    label: str


class Instance(msgspec.Struct, frozen=True):
    """A server of `tocsin serve` or `tocsin demo` that runs on this machine."""

    pid: int
    folder: Path
    environment: Mapping[str, str]

    def settings(self) -> "Settings":
        """Load the settings that the server has: paths in them are relative to its folder."""
        from tocsin.settings.build import PREFIX
        from tocsin.settings.load import load_settings

        try:
            os.chdir(self.folder)
        except OSError as error:
            raise NoServerError(
                f"The server's folder, {self.folder}, cannot be entered ({error.strerror}), and its settings "
                "are there. Start the server in another folder, or give --key KEY with --server URL."
            ) from error
        for name in [name for name in os.environ if name.startswith(PREFIX)]:
            del os.environ[name]
        os.environ.update(self.environment)
        return load_settings()

    @property
    def port(self) -> int | None:
        """Return the port that its API listens on, or None if it does not yet."""
        import psutil

        with suppress(psutil.Error):
            for socket in psutil.Process(self.pid).net_connections("tcp"):
                if socket.status == psutil.CONN_LISTEN:
                    return int(socket.laddr.port)
        return None


def find_server(target: Target) -> "Remote | Database":
    """Return the server to talk to, or raise NoServerError; nothing is started or created."""
    if target.url is None:
        return find_database()
    from tocsin.cli.remote import Remote
    from tocsin.client.address import checked_base_url

    try:
        url = checked_base_url(target.url, "--server (TOCSIN_SERVER)")
        if target.key is not None:
            return Remote(url, target.key)
    except ValueError as error:
        raise NoServerError(str(error)) from error
    parts = urlsplit(url)
    if parts.hostname in {"127.0.0.1", "localhost", "::1"}:
        for instance in running_instances():
            if instance.port == (parts.port or 80):
                return _of_instance(instance)
    raise NoServerError(
        f"{url} needs an API key: give --key before the command, or set TOCSIN_KEY. "
        "On the server's machine, as the user who runs it, `tocsin keys create NAME --role operator` "
        "creates one."
    )


def find_database() -> Database:
    """Return the database of the settings, or of a server that runs on this machine."""
    from tocsin.settings.load import load_settings

    settings = load_settings()
    if found := configured_database(settings):
        return found
    if settings.data_dir:
        raise NoServerError(f"No server runs in {settings.data_dir} (TOCSIN_DATA_DIR). {_WHAT_TO_DO}")
    instances = list(running_instances())
    if len(instances) == 1:
        return _of_instance(instances[0])
    if instances:
        ports = ", ".join(f"http://127.0.0.1:{instance.port or '…'}" for instance in instances)
        raise NoServerError(f"Several servers run on this machine: {ports}. Choose one by --server URL.")
    raise NoServerError(f"No server is set, and this user runs none on this machine. {_WHAT_TO_DO}")


def configured_database(settings: "Settings") -> Database | None:
    """Return the database that the settings name, or the embedded one of their folder if it runs."""
    if settings.database_url:
        return Database(settings, settings.database_url, database_label(settings, settings.database_url))
    from tocsin.compose.database import data_dir
    from tocsin.store.embedded import EmbeddedPostgres

    folder = data_dir(settings)
    url = EmbeddedPostgres(folder).running_url()
    return Database(settings, url, f"embedded database in {folder}") if url else None


def running_instances() -> Iterator[Instance]:
    """List the servers of this user on this machine; root's are not those of others, nor of containers."""
    import psutil

    from tocsin.settings.build import PREFIX

    user, container = os.geteuid(), _container_of(os.getpid())
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if process.uids().effective != user:
                continue
            if process.cmdline()[-len(_API_OF_A_TREE) :] != _API_OF_A_TREE:
                continue
            if _container_of(process.pid) != container:
                continue
            given = {name: value for name, value in process.environ().items() if name.startswith(PREFIX)}
            yield Instance(process.pid, Path(process.cwd()), given)


def _container_of(pid: int) -> Path | None:
    """Return the namespace of a process, which differs between containers; None where there are none."""
    return Path(f"/proc/{pid}/ns/pid").readlink() if sys.platform == "linux" else None


def _of_instance(instance: Instance) -> Database:
    settings = instance.settings()
    url = str(settings.database_url)
    return Database(settings, url, f"the server that runs on this machine, {database_label(settings, url)}")


def database_label(settings: "Settings", url: str) -> str:
    """Describe a database without its password."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or parse_qs(parts.query).get("host", ["this machine"])[0]
        name = parts.path.lstrip("/")
    except ValueError:
        host = name = ""
    # An address that cannot be split may have its password anywhere.
    if not (re.fullmatch(r"[\w./:-]+", host) and re.fullmatch(r"[\w.$-]*", name)):
        return "the database of TOCSIN_DATABASE_URL"
    return f"database {name or 'of the default name'} on {host}, schema {settings.schema}"
